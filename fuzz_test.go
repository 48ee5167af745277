package maxsim_test

import (
	"errors"
	"slices"
	"testing"

	"gorgonia.org/tensor"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/casefile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/oracle"
)

// bytesource hands out bytes, then zeros.
type bytesource []byte

func (s *bytesource) next() int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b)
}

// tokens are small integers, so that every order of summation is exact.
func (s *bytesource) tokens(n int) []float32 {
	out := make([]float32, n)
	for at := range out {
		out[at] = float32((s.next()+at*at)%7 - 3)
	}
	return out
}

// FuzzOffsets gives Packed any offsets and any masks: malformed offsets are ErrOffsets and nothing else; with all others
// the scores, the argmax and the gradients are the oracle's.
func FuzzOffsets(f *testing.F) {
	f.Add([]byte{2, 2, 3, 9, 9, 0, 4, 9, 0, 5, 9, 1, 0, 1, 1, 0})
	f.Add([]byte{1, 1, 1, 5, 5, 0, 0, 0, 0})
	f.Add([]byte{3, 2, 2, 4, 4, 0, 3, 2, 4, 0, 250, 4})
	f.Add([]byte{1, 2, 4, 7, 3, 1, 7, 0, 1, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := bytesource(data)
		bq, bd, dim := 1+s.next()%4, 1+s.next()%4, 1+s.next()%5
		rowsQ, rowsD := 1+s.next()%10, 1+s.next()%14
		cuQ, cuD := s.offsets(bq, rowsQ), s.offsets(bd, rowsD)
		c := gradCase{setting: setting{layout: casefile.Packed, grads: true}, qShape: []int{rowsQ, dim}, dShape: []int{rowsD, dim}, cuQ: cuQ, cuD: cuD}
		v := values{
			q: dense(s.tokens(rowsQ*dim), rowsQ, dim), d: dense(s.tokens(rowsD*dim), rowsD, dim),
			cuQ: offsets(cuQ), cuD: offsets(cuD), upstream: dense(s.tokens(bq*bd), bq, bd),
		}
		maskQ, maskD := s.mask(rowsQ), s.mask(rowsD)
		v.maskQ, v.maskD = dense(maskQ, rowsQ), dense(maskD, rowsD)
		prog, err := compile[float32](machines[0], c.setting, v)
		if err != nil {
			t.Fatal(err)
		}
		defer prog.close()
		got, err := prog.step(v)
		if !wellFormed(cuQ, rowsQ) || !wellFormed(cuD, rowsD) {
			if !errors.Is(maxsim.Cause(err), maxsim.ErrOffsets) {
				t.Fatalf("offsets %v of %d rows and %v of %d rows: error %v, want ErrOffsets", cuQ, rowsQ, cuD, rowsD, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		b := &layout.Batch{Dim: dim}
		b.Q = layout.Packed(rowsQ, cuQ).Masked(func(row int) bool { return maskQ[row] })
		b.D = layout.Packed(rowsD, cuD).Masked(func(row int) bool { return maskD[row] })
		checkExact(t, casefile.Packed, b, v, got)
	})
}

// offsets are mostly well-formed; a byte above 250 breaks them.
func (s *bytesource) offsets(n, rows int) []int {
	cu := make([]int, n+1)
	for i := range cu {
		b := s.next()
		switch {
		case b > 250:
			cu[i] = b - 253
		case i > 0:
			cu[i] = min(rows, cu[i-1]+b%5)
		}
		if b > 240 && b <= 250 {
			cu[i] = rows + b - 245
		}
	}
	return cu
}

// wellFormed is what the documentation asks of offsets.
func wellFormed(cu []int, rows int) bool {
	return cu[0] == 0 && slices.IsSorted(cu) && cu[len(cu)-1] <= rows
}

func (s *bytesource) mask(n int) []bool {
	valid := make([]bool, n)
	for at := range valid {
		valid[at] = s.next()%4 != 1
	}
	return valid
}

// checkExact holds integers to the oracle, number for number.
func checkExact(t *testing.T, kind string, b *layout.Batch, v values, got outputs[float32]) {
	t.Helper()
	q, d, ds := v.q.Data().([]float32), v.d.Data().([]float32), v.upstream.Data().([]float32)
	r := oracle.Forward[float64](b, q, d)
	g := oracle.Backward[float64](b, q, d, r.Argmax, ds)
	for _, x := range []struct {
		name string
		got  []float32
		want []float64
	}{{"scores", got.scores, r.Scores}, {"dq", got.dq, g.DQ}, {"dd", got.dd, g.DD}} {
		if !slices.Equal(converted[float32](x.want), x.got) {
			t.Errorf("%s is %v, want %v", x.name, x.got, x.want)
		}
	}
	if want := (&casefile.Case{Layout: kind}).ArgmaxOf(b, r.Argmax); !slices.Equal(got.argmax, want) {
		t.Errorf("argmax is %v, want %v", got.argmax, want)
	}
}

// FuzzShapes builds nodes from inputs of any ranks and sizes: shapes that fit give the oracle's values, all others an
// error, and nothing panics.
func FuzzShapes(f *testing.F) {
	f.Add([]byte{0, 3, 2, 3, 4, 3, 5, 2, 4, 0, 0, 1})
	f.Add([]byte{1, 3, 2, 3, 4, 3, 2, 2, 4, 3, 2, 3, 2, 2})
	f.Add([]byte{2, 3, 2, 3, 4, 3, 4, 2, 4, 0, 2, 4, 2, 2})
	f.Add([]byte{3, 2, 4, 3, 2, 5, 3, 1, 1, 1, 1})
	f.Add([]byte{0, 2, 2, 3, 3, 5, 2, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := bytesource(data)
		kind := []string{casefile.AllPairs, casefile.Paired, casefile.Candidates, casefile.Packed}[s.next()%4]
		q, d := s.shape(), s.shape()
		var maskQ, maskD tensor.Shape
		if s.next()%2 == 1 {
			maskQ = s.shape()
		}
		if s.next()%2 == 1 {
			maskD = s.shape()
		}
		n := s.next() % 5
		v := values{q: dense(s.tokens(q.TotalSize()), q...), d: dense(s.tokens(d.TotalSize()), d...)}
		if kind == casefile.Packed {
			v.cuQ, v.cuD = offsets([]int{0, q[0] / 2, q[0]}), offsets([]int{0, d[0]})
		}
		if maskQ != nil {
			v.maskQ = dense(s.mask(maskQ.TotalSize()), maskQ...)
		}
		if maskD != nil {
			v.maskD = dense(s.mask(maskD.TotalSize()), maskD...)
		}
		g, err := newGraph(setting{layout: kind, group: n}, v)
		if fits := shapesFit(kind, n, q, d, maskQ, maskD); fits != (err == nil) {
			t.Fatalf("%s of q %v, d %v, masks %v and %v, %d candidates: error %v", kind, q, d, maskQ, maskD, n, err)
		}
		if err != nil {
			if !errors.Is(err, maxsim.ErrShape) {
				t.Fatalf("error %v, want ErrShape", err)
			}
			return
		}
		v.upstream = dense(s.tokens(g.scores.Shape().TotalSize()), g.scores.Shape()...)
		prog, err := compile[float32](machines[s.next()%2], setting{layout: kind, group: n, grads: true}, v)
		if err != nil {
			t.Fatal(err)
		}
		defer prog.close()
		got, err := prog.step(v)
		if err != nil {
			t.Fatal(err)
		}
		checkExact(t, kind, batchOf(kind, n, v), v, got)
	})
}

// shape has 1 to 4 axes of 1 to 4; most shapes fit somewhere.
func (s *bytesource) shape() tensor.Shape {
	shape := make(tensor.Shape, 1+(s.next()+3)%4)
	for axis := range shape {
		shape[axis] = 1 + s.next()%4
	}
	return shape
}

// shapesFit is what the documentation asks of shapes.
func shapesFit(kind string, n int, q, d, maskQ, maskD tensor.Shape) bool {
	rank := 3
	if kind == casefile.Packed {
		rank = 2
	}
	if len(q) != rank || len(d) != rank || q[rank-1] != d[rank-1] {
		return false
	}
	switch {
	case kind == casefile.Paired && d[0] != q[0], kind == casefile.Candidates && (n < 1 || d[0] != q[0]*n):
		return false
	}
	return (maskQ == nil || slices.Equal(maskQ, q[:rank-1])) && (maskD == nil || slices.Equal(maskD, d[:rank-1]))
}

// batchOf is the problem of checked inputs.
func batchOf(kind string, n int, v values) *layout.Batch {
	q, d := v.q.Shape(), v.d.Shape()
	b := &layout.Batch{Dim: q[len(q)-1]}
	switch kind {
	case casefile.Packed:
		b.Q, b.D = layout.Packed(q[0], []int{0, q[0] / 2, q[0]}), layout.Packed(d[0], []int{0, d[0]})
	case casefile.Paired:
		b.Group = 1
	case casefile.Candidates:
		b.Group = n
	}
	if kind != casefile.Packed {
		b.Q, b.D = layout.Dense(q[0], q[1]), layout.Dense(d[0], d[1])
	}
	for _, side := range []struct {
		seqs *layout.Seqs
		mask *tensor.Dense
	}{{&b.Q, v.maskQ}, {&b.D, v.maskD}} {
		if side.mask != nil {
			valid := side.mask.Data().([]bool)
			*side.seqs = side.seqs.Masked(func(row int) bool { return valid[row] })
		}
	}
	return b
}
