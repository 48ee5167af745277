package enginetest

import (
	"fmt"
	"math"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/oracle"
)

// Fuzz makes problems of any shape, mask, offsets and values from bytes and compares them with the oracle bit for bit,
// then asks for the same bits from every other way to write the problem.
func Fuzz[T layout.Float](f *testing.F, e Engine[T]) {
	for n := range 24 {
		seed := make([]byte, 16*n)
		for at := range seed {
			seed[at] = byte((at + 1) * (2*n + 3) * 37)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := decode[T](data)
		if err := fuzzed(e, p); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	})
}

func fuzzed[T layout.Float](e Engine[T], p *problem[T]) error {
	got, err := solve(e, p)
	if err != nil {
		return err
	}
	want := oracle.Forward[float64](p.b, p.q, p.d)
	if err := matches(p, got, &want); err != nil {
		return err
	}
	return invariant(e, p)
}

// bytesource hands out bytes, and numbers made from the last ones when they run out.
type bytesource struct {
	data []byte
	last uint32
}

func (s *bytesource) next() int {
	if len(s.data) == 0 {
		s.last = s.last*1664525 + 1013904223
		return int(s.last >> 24)
	}
	b := s.data[0]
	s.data = s.data[1:]
	s.last = s.last*31 + uint32(b)
	return int(b)
}

// decode makes a problem of any bytes: sizes, sequences, masks, then values.
func decode[T layout.Float](data []byte) *problem[T] {
	s := &bytesource{data: data}
	bq, group := 1+s.next()%4, max(0, s.next()%6-2)
	bd := 1 + s.next()%5
	if group > 0 {
		bd = bq * group
	}
	b := &layout.Batch{Dim: 1 + s.next()%19, Group: group}
	b.Q = s.sequences(bq, 1+s.next()%12)
	b.D = s.sequences(bd, 1+s.next()%40)
	p := &problem[T]{b: b, q: make([]T, b.Q.Rows*b.Dim), d: make([]T, b.D.Rows*b.Dim), ds: make([]T, bq*b.Cols()), shift: s.next()}
	limit := 1 + s.next()%4
	special := s.next()%3 == 0
	fillRows(s, p.q, &b.Q, b.Dim, limit, special)
	fillRows(s, p.d, &b.D, b.Dim, limit, special)
	for at := range p.ds {
		// Not 0, which times infinity would be NaN.
		p.ds[at] = T([]float64{-2, -1, 1, 3}[s.next()%4])
	}
	p.name = fmt.Sprintf("q %+v, d %+v, dim=%d, group=%d", b.Q, b.D, b.Dim, group)
	return p
}

// sequences makes n sequences of up to tokens tokens: packed or of one length, masked or not, with capacity or not.
func (s *bytesource) sequences(n, tokens int) layout.Seqs {
	kind := s.next()
	var q layout.Seqs
	if kind%2 == 0 {
		q = layout.Dense(n, tokens)
	} else {
		cu := make([]int, n+1)
		for i := range n {
			cu[i+1] = cu[i] + s.next()%(tokens+1)
		}
		q = layout.Packed(cu[n]+s.next()%4, cu)
	}
	if kind/2%2 == 0 {
		return q
	}
	density, valid := 1+s.next()%8, make([]bool, q.Rows)
	for row := range valid {
		valid[row] = s.next()%8 < density
	}
	return q.Masked(func(row int) bool { return valid[row] })
}

// fillRows sets small integers in valid rows, now and then a NaN or an infinity, and garbage elsewhere.
func fillRows[T layout.Float](s *bytesource, x []T, seqs *layout.Seqs, dim, limit int, special bool) {
	for row, valid := range validRows(seqs) {
		for k := range dim {
			b := s.next()
			v := float64(b%(2*limit+1) - limit)
			switch {
			case !valid:
				v = garbage[b%len(garbage)]
			case special && b == 251:
				v = math.NaN()
			case special && b == 252:
				v = math.Inf(1)
			case special && b == 253:
				v = math.Inf(-1)
			case v == 0 && b >= 128:
				v = math.Copysign(0, -1)
			}
			x[row*dim+k] = T(v)
		}
	}
}
