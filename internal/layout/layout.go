// Package layout is all that engines know about shapes, and the contract between the graph ops and the engines.
//
// Every public layout (in-batch, paired, candidates, packed; masked or not) becomes one thing here: two row-major
// matrices of token rows [rows, dim], the sequences in each of them ([Seqs]) and which document meets which query
// ([Batch.Group]). Letters are those of the whole project: i query, j document, t query token, u document token,
// k coordinate or, where a query has its own documents, the ordinal of a document among them.
package layout

import "slices"

// Float is the element type of token rows, scores and gradients.
type Float interface{ float32 | float64 }

// Span is a half-open range of token rows [Lo, Hi).
type Span struct{ Lo, Hi int }

// Seqs places sequences of tokens in a matrix of token rows.
type Seqs struct {
	// Rows is the number of rows of the matrix. Rows outside every sequence are capacity: they are never read and
	// their gradient is 0.
	Rows int
	// Cu holds cu_seqlens: sequence s owns rows [Cu[s], Cu[s+1]). Cu[0] = 0, never decreasing, last entry ≤ Rows.
	Cu []int
	// Runs are the valid (unmasked) rows in ascending order, none empty, none crossing a sequence's end.
	Runs []Span
	// First[s] is the first run of sequence s; sequence s owns Runs[First[s]:First[s+1]]. len(First) = len(Cu).
	First []int
}

// Clone returns a copy that shares nothing with s.
func (s *Seqs) Clone() Seqs {
	return Seqs{Rows: s.Rows, Cu: slices.Clone(s.Cu), Runs: slices.Clone(s.Runs), First: slices.Clone(s.First)}
}

// Len returns the number of sequences.
func (s *Seqs) Len() int { return len(s.Cu) - 1 }

// Tokens returns the number of tokens of sequence i, masked ones included.
func (s *Seqs) Tokens(i int) int { return s.Cu[i+1] - s.Cu[i] }

// RunsOf returns the runs of valid rows of sequence i.
func (s *Seqs) RunsOf(i int) []Span { return s.Runs[s.First[i]:s.First[i+1]] }

// Valid returns the number of valid tokens of sequence i.
func (s *Seqs) Valid(i int) int {
	n := 0
	for _, r := range s.RunsOf(i) {
		n += r.Hi - r.Lo
	}
	return n
}

// Dense returns n sequences of exactly tokens rows each.
func Dense(n, tokens int) Seqs {
	cu := make([]int, n+1)
	for i := range cu {
		cu[i] = i * tokens
	}
	return Packed(n*tokens, cu)
}

// Packed returns sequences at the given offsets in a matrix of the given number of rows, every token valid.
// It keeps cu.
func Packed(rows int, cu []int) Seqs {
	n := len(cu) - 1
	s := Seqs{Rows: rows, Cu: cu, Runs: make([]Span, 0, n), First: make([]int, n+1)}
	for i := range n {
		if cu[i] < cu[i+1] {
			s.Runs = append(s.Runs, Span{cu[i], cu[i+1]})
		}
		s.First[i+1] = len(s.Runs)
	}
	return s
}

// Masked returns s with only the rows valid that valid reports, whatever the pattern: holes, left padding. It may ask for
// a row more than once.
func (s Seqs) Masked(valid func(row int) bool) Seqs {
	n := s.Len()
	out := Seqs{Rows: s.Rows, Cu: s.Cu, Runs: make([]Span, 0, n), First: make([]int, n+1)}
	for i := range n {
		for _, r := range s.RunsOf(i) {
			for row := r.Lo; row < r.Hi; row++ {
				if !valid(row) {
					continue
				}
				lo := row
				for row < r.Hi && valid(row) {
					row++
				}
				out.Runs = append(out.Runs, Span{lo, row})
			}
		}
		out.First[i+1] = len(out.Runs)
	}
	return out
}

// Batch is one MaxSim problem: token rows, sequences and pairing.
type Batch struct {
	Q, D Seqs
	Dim  int
	// Group is 0 when every query meets every document (scores [bq, bd]). Otherwise query i meets its own documents
	// i*Group … i*Group+Group-1 (scores [bq, Group]): candidates, or pairs when Group is 1. D.Len() = Q.Len()*Group.
	Group int
}

// Cols returns the number of documents each query meets: the columns of the score matrix.
func (b *Batch) Cols() int {
	if b.Group > 0 {
		return b.Group
	}
	return b.D.Len()
}

// Doc returns the document in column k of query i.
func (b *Batch) Doc(i, k int) int { return i*b.Group + k }

// Queries returns the queries [first, last) that document j meets, and its column k in their rows of scores.
func (b *Batch) Queries(j int) (first, last, k int) {
	if b.Group == 0 {
		return 0, b.Q.Len(), j
	}
	return j / b.Group, j/b.Group + 1, j % b.Group
}

// TapeLen returns the number of entries of the argmax tape: one for every query row and column, capacity rows included.
func (b *Batch) TapeLen() int { return b.Q.Rows * b.Cols() }

// TapeAt returns where the argmax of (query i, column k) starts in the tape; entry t is that of query token t.
// Dense queries of equal length make the tape [bq, cols, tq].
func (b *Batch) TapeAt(i, k int) int { return b.Q.Cu[i]*b.Cols() + k*b.Q.Tokens(i) }
