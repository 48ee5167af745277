package enginetest

import (
	"math/rand/v2"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// rewrite is a problem written down another way: other padding, other batches, other pairing. Its scores and its
// argmax must be the same bits.
type rewrite[T layout.Float] struct {
	problem *problem[T]
	old     *problem[T]
	qrow    []int // for each row of the new problem, the old row; -1 is new garbage
	drow    []int
	cell    func(i, k int) (newI, newK int)
}

// rows is a sequence as rows of the old problem; -1 is a new masked row of garbage.
type sequence []int

// rewrites lists other ways to write p, without those that would be huge.
func rewrites[T layout.Float](p *problem[T]) []rewrite[T] {
	rng := rand.New(rand.NewPCG(uint64(len(p.q)), uint64(len(p.d))))
	b := p.b
	bq, bd, cols := b.Q.Len(), b.D.Len(), b.Cols()
	same := func(i, k int) (int, int) { return i, k }

	compactQ, compactD := plan(&b.Q, bq, identity, compact), plan(&b.D, bd, identity, compact)
	spread := func(s *layout.Seqs, i int) sequence { return spreadOut(rng, s, i) }
	list := []rewrite[T]{
		build(p, "masked tokens left out", compactQ, compactD, b.Group, same),
		build(p, "garbage between tokens", plan(&b.Q, bq, identity, spread), plan(&b.D, bd, identity, spread), b.Group, same),
		build(p, "padded to one length", padded(compactQ), padded(plan(&b.D, bd, identity, asIs)), b.Group, same),
	}
	if bq*cols > 500 {
		return list
	}
	list = append(list,
		build(p, "every pair alone", plan(&b.Q, bq*cols, func(n int) int { return n / cols }, asIs),
			plan(&b.D, bq*cols, func(n int) int { return b.Doc(n/cols, n%cols) }, asIs), 1,
			func(i, k int) (int, int) { return i*cols + k, 0 }))
	if b.Group == 0 {
		return append(list, build(p, "candidates", plan(&b.Q, bq, identity, asIs),
			plan(&b.D, bq*cols, func(n int) int { return n % cols }, compact), cols, same))
	}
	return append(list, build(p, "in batch", plan(&b.Q, bq, identity, asIs), plan(&b.D, bd, identity, asIs), 0,
		func(i, k int) (int, int) { return i, b.Doc(i, k) }))
}

func identity(n int) int { return n }

// plan makes n sequences, the n-th from sequence of(n) of s.
func plan(s *layout.Seqs, n int, of func(int) int, write func(*layout.Seqs, int) sequence) []sequence {
	list := make([]sequence, n)
	for i := range list {
		list[i] = write(s, of(i))
	}
	return list
}

// asIs keeps masked tokens.
func asIs(s *layout.Seqs, i int) sequence {
	var rows sequence
	for row := s.Cu[i]; row < s.Cu[i+1]; row++ {
		rows = append(rows, row)
	}
	return rows
}

// compact leaves masked tokens out.
func compact(s *layout.Seqs, i int) sequence {
	var rows sequence
	for _, r := range s.RunsOf(i) {
		for row := r.Lo; row < r.Hi; row++ {
			rows = append(rows, row)
		}
	}
	return rows
}

// spreadOut puts garbage before, between and behind the tokens.
func spreadOut(rng *rand.Rand, s *layout.Seqs, i int) sequence {
	var rows sequence
	for _, row := range append(asIs(s, i), -1) {
		for rng.IntN(3) == 0 {
			rows = append(rows, -1)
		}
		rows = append(rows, row)
	}
	return rows
}

// padded brings all sequences to one length, longer than the longest.
func padded(list []sequence) []sequence {
	longest := 0
	for _, rows := range list {
		longest = max(longest, len(rows))
	}
	out := make([]sequence, len(list))
	for i, rows := range list {
		out[i] = append(sequence(nil), rows...)
		for len(out[i]) < longest+3 {
			out[i] = append(out[i], -1)
		}
	}
	return out
}

func build[T layout.Float](p *problem[T], name string, q, d []sequence, group int, cell func(i, k int) (int, int)) rewrite[T] {
	r := rewrite[T]{old: p, cell: cell}
	n := &problem[T]{name: p.name + ": " + name, b: &layout.Batch{Dim: p.b.Dim, Group: group}, shift: p.shift + 5}
	n.b.Q, r.qrow, n.q = place(&p.b.Q, p.q, p.b.Dim, q)
	n.b.D, r.drow, n.d = place(&p.b.D, p.d, p.b.Dim, d)
	n.ds = make([]T, n.b.Q.Len()*n.b.Cols())
	for i := range p.b.Q.Len() {
		for k := range p.b.Cols() {
			newI, newK := cell(i, k)
			n.ds[newI*n.b.Cols()+newK] = p.ds[i*p.b.Cols()+k]
		}
	}
	r.problem = n
	return r
}

// place lays the sequences out one after the other, with two rows of capacity at the end.
func place[T layout.Float](s *layout.Seqs, x []T, dim int, list []sequence) (layout.Seqs, []int, []T) {
	cu := make([]int, 1, len(list)+1)
	var oldRow []int
	for _, rows := range list {
		oldRow = append(oldRow, rows...)
		cu = append(cu, len(oldRow))
	}
	oldRow = append(oldRow, -1, -1)
	valid := validRows(s)
	out := make([]T, len(oldRow)*dim)
	for row, old := range oldRow {
		for k := range dim {
			if old >= 0 {
				out[row*dim+k] = x[old*dim+k]
			} else {
				out[row*dim+k] = T(garbage[(row+k)%len(garbage)])
			}
		}
	}
	placed := layout.Packed(len(oldRow), cu)
	return placed.Masked(func(row int) bool { return oldRow[row] >= 0 && valid[oldRow[row]] }), oldRow, out
}

// back returns an output of the new problem as one of the old. Gradients of copies of a row are added up.
func (r *rewrite[T]) back(got output[T]) output[T] {
	b, nb := r.old.b, r.problem.b
	out := output[T]{
		scores: make([]T, b.Q.Len()*b.Cols()), argmax: make([]int32, b.TapeLen()),
		dq: make([]T, b.Q.Rows*b.Dim), dd: make([]T, b.D.Rows*b.Dim),
	}
	for at := range out.argmax {
		out.argmax[at] = -1
	}
	for i := range b.Q.Len() {
		for k := range b.Cols() {
			ni, nk := r.cell(i, k)
			out.scores[i*b.Cols()+k] = got.scores[ni*nb.Cols()+nk]
			for nt := range nb.Q.Tokens(ni) {
				row := r.qrow[nb.Q.Cu[ni]+nt]
				if nu := got.argmax[nb.TapeAt(ni, nk)+nt]; row >= 0 && nu >= 0 {
					winner := r.drow[nb.D.Cu[nb.Doc(ni, nk)]+int(nu)]
					out.argmax[b.TapeAt(i, k)+row-b.Q.Cu[i]] = int32(winner - b.D.Cu[b.Doc(i, k)])
				}
			}
		}
	}
	addRows(out.dq, got.dq, r.qrow, b.Dim)
	addRows(out.dd, got.dd, r.drow, b.Dim)
	return out
}

func addRows[T layout.Float](sum, x []T, oldRow []int, dim int) {
	for row, old := range oldRow {
		for k := range dim {
			if old >= 0 {
				sum[old*dim+k] += x[row*dim+k]
			}
		}
	}
}
