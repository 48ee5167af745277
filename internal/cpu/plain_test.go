package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// problem is a batch with small-integer elements: every order of summation is exact, so that any engine must agree with
// plain loops in every bit.
type problem[T layout.Float] struct {
	b        layout.Batch
	q, d, ds []T
}

// randomProblem draws a batch of any layout: dense or packed, masked or not, all pairs or groups, with empty sequences,
// capacity rows that hold NaN, ties, and now and then long documents, an infinity or a NaN in a valid row.
func randomProblem[T layout.Float](r *rand.Rand) problem[T] {
	var p problem[T]
	p.b.Dim = 1 + r.IntN(40)
	docs := r.IntN(7)
	queries := r.IntN(6)
	if r.IntN(3) == 0 {
		p.b.Group = 1 + r.IntN(3)
		docs = queries * p.b.Group
	}
	p.b.Q = randomSeqs(r, queries, 40)
	longest := 70
	if r.IntN(20) == 0 {
		longest = 3 * callRows // several calls a document
	}
	p.b.D = randomSeqs(r, docs, longest)
	p.q = randomRows[T](r, &p.b.Q, p.b.Dim)
	p.d = randomRows[T](r, &p.b.D, p.b.Dim)
	p.ds = make([]T, queries*p.b.Cols())
	for at := range p.ds {
		p.ds[at] = T(r.IntN(9) - 4)
	}
	return p
}

func randomSeqs(r *rand.Rand, n, longest int) layout.Seqs {
	cu := make([]int, n+1)
	same := r.IntN(2) * r.IntN(longest)
	for i := range n {
		cu[i+1] = cu[i] + same
		if same == 0 && r.IntN(5) > 0 {
			cu[i+1] = cu[i] + r.IntN(longest)
		}
	}
	s := layout.Packed(cu[n]+r.IntN(3), cu)
	if r.IntN(2) == 0 {
		mask := make([]bool, s.Rows)
		odds := 1 + r.IntN(4)
		for row := range mask {
			mask[row] = r.IntN(odds) == 0
		}
		s = s.Masked(func(row int) bool { return mask[row] })
	}
	return s
}

func randomRows[T layout.Float](r *rand.Rand, s *layout.Seqs, dim int) []T {
	rows := make([]T, s.Rows*dim)
	for at := range rows {
		rows[at] = T(math.NaN()) // of masked and capacity rows
	}
	for _, run := range s.Runs {
		for row := run.Lo; row < run.Hi; row++ {
			for k := range dim {
				rows[row*dim+k] = T(r.IntN(3) - 1)
			}
		}
	}
	if len(s.Runs) > 0 && r.IntN(4) == 0 {
		run := s.Runs[r.IntN(len(s.Runs))]
		rows[run.Lo*dim+r.IntN(dim)] = T([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(3)])
	}
	return rows
}

// plain is the contract of layout.Engine as loops.
func (p *problem[T]) plain() (scores []T, tape []int32) {
	b := &p.b
	scores, tape = make([]T, b.Q.Len()*b.Cols()), make([]int32, b.TapeLen())
	for at := range tape {
		tape[at] = -1
	}
	for i := range b.Q.Len() {
		for k := range b.Cols() {
			j := b.Doc(i, k)
			for _, run := range b.Q.RunsOf(i) {
				for row := run.Lo; row < run.Hi; row++ {
					max, argmax := p.best(row, j)
					if argmax >= 0 {
						scores[i*b.Cols()+k] += max
					}
					tape[b.TapeAt(i, k)+row-b.Q.Cu[i]] = argmax
				}
			}
		}
	}
	return scores, tape
}

func (p *problem[T]) best(row, j int) (max T, argmax int32) {
	b := &p.b
	argmax = -1
	for _, run := range b.D.RunsOf(j) {
		for u := run.Lo; u < run.Hi; u++ {
			var s T
			for k := range b.Dim {
				s += p.q[row*b.Dim+k] * p.d[u*b.Dim+k]
			}
			if s != s {
				return s, int32(b.D.RunsOf(j)[0].Lo - b.D.Cu[j])
			}
			if argmax < 0 || s > max {
				max, argmax = s, int32(u-b.D.Cu[j])
			}
		}
	}
	return max, argmax
}

// plainBackward adds in the order of the contract: columns ascending for dq, query rows ascending for dd.
func (p *problem[T]) plainBackward(tape []int32) (dq, dd []T) {
	b := &p.b
	dq, dd = make([]T, len(p.q)), make([]T, len(p.d))
	for i := range b.Q.Len() {
		for k := range b.Cols() {
			for t := range b.Q.Tokens(i) {
				u := tape[b.TapeAt(i, k)+t]
				if u < 0 {
					continue
				}
				row, doc := (b.Q.Cu[i]+t)*b.Dim, (b.D.Cu[b.Doc(i, k)]+int(u))*b.Dim
				for x := range b.Dim {
					dq[row+x] += p.ds[i*b.Cols()+k] * p.d[doc+x]
					dd[doc+x] += p.ds[i*b.Cols()+k] * p.q[row+x]
				}
			}
		}
	}
	return dq, dd
}

func TestPlain(t *testing.T) {
	for _, path := range tile.Available() {
		t.Run(path+"/float32", func(t *testing.T) { testPlain(t, mustWith[float32](t, path)) })
		t.Run(path+"/float64", func(t *testing.T) { testPlain(t, mustWith[float64](t, path)) })
	}
}

func testPlain[T layout.Float](t *testing.T, e *Engine[T]) {
	r := rand.New(rand.NewPCG(1, 2))
	for trial := range 300 {
		p := randomProblem[T](r)
		procs := runtime.GOMAXPROCS(1 + r.IntN(5))
		if err := p.agree(e); err != nil {
			t.Errorf("trial %d: batch %+v: %v", trial, p.b, err)
		}
		runtime.GOMAXPROCS(procs)
		if t.Failed() {
			return
		}
	}
}

// agree returns an error unless e agrees with plain loops.
func (p *problem[T]) agree(e *Engine[T]) error {
	scores, argmax := p.plain()
	got := make([]T, len(scores))
	tape, err := e.Forward(&p.b, p.q, p.d, got, true)
	if err != nil {
		return err
	}
	if at := differ(got, scores); at >= 0 {
		return fmt.Errorf("score %d is %v, expected %v", at, got[at], scores[at])
	}
	gotArgmax, _ := tape.Argmax()
	if !slices.Equal(gotArgmax, argmax) {
		return fmt.Errorf("argmax %v, expected %v", gotArgmax, argmax)
	}
	dq, dd := p.plainBackward(argmax)
	gotDq, gotDd := filled[T](len(dq)), filled[T](len(dd))
	if err := e.Backward(&p.b, p.q, p.d, tape, p.ds, gotDq, gotDd); err != nil {
		return err
	}
	if at := differ(gotDq, dq); at >= 0 {
		return fmt.Errorf("dq[%d] is %v, expected %v", at, gotDq[at], dq[at])
	}
	if at := differ(gotDd, dd); at >= 0 {
		return fmt.Errorf("dd[%d] is %v, expected %v", at, gotDd[at], dd[at])
	}
	return p.agreeRows(e, tape, dd)
}

// agreeRows returns an error unless BackwardDocRows are the rows of dd that the tape touches.
func (p *problem[T]) agreeRows(e *Engine[T], tape layout.Tape, dd []T) error {
	rows, grads, err := e.BackwardDocRows(&p.b, p.q, tape, p.ds)
	if err != nil {
		return err
	}
	if !slices.IsSorted(rows) || len(slices.Compact(slices.Clone(rows))) != len(rows) {
		return fmt.Errorf("touched rows %v do not ascend", rows)
	}
	dense := make([]T, len(dd))
	for at, row := range rows {
		copy(dense[row*p.b.Dim:(row+1)*p.b.Dim], grads[at*p.b.Dim:])
	}
	if at := differ(dense, dd); at >= 0 {
		return fmt.Errorf("touched rows make dd[%d] %v, expected %v", at, dense[at], dd[at])
	}
	return nil
}

// differ returns the first place where a and b have different values, or -1. A NaN equals a NaN, +0 differs from -0
// only beyond what plain loops promise.
func differ[T layout.Float](a, b []T) int {
	for at := range a {
		if a[at] != b[at] && (a[at] == a[at] || b[at] == b[at]) {
			return at
		}
	}
	return -1
}

// filled returns n elements that no gradient holds.
func filled[T layout.Float](n int) []T {
	s := make([]T, n)
	for at := range s {
		s[at] = 12345
	}
	return s
}
