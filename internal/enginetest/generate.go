package enginetest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// shape is a problem's size. tq and td are the longest sequences.
type shape struct{ bq, tq, bd, td, dim int }

func (s shape) String() string {
	return fmt.Sprintf("bq=%d,tq=%d,bd=%d,td=%d,dim=%d", s.bq, s.tq, s.bd, s.td, s.dim)
}

// pattern says which tokens are valid.
type pattern string

const (
	all    pattern = "all"    // every token
	prefix pattern = "prefix" // a random length, sometimes 0
	left   pattern = "left"   // left padding
	holes  pattern = "holes"  // any token with probability 2/3
	packed pattern = "packed" // sequences of random length, some empty, back to back, and capacity rows at the end
)

var patterns = []pattern{all, prefix, left, holes, packed}

// sequences makes n sequences of at most tokens tokens.
func (p pattern) sequences(rng *rand.Rand, n, tokens int) layout.Seqs {
	lengths := make([]int, n)
	for i := range lengths {
		if lengths[i] = rng.IntN(tokens + 1); rng.IntN(4) == 0 {
			lengths[i] = 0
		}
	}
	if n == 1 {
		lengths[0] = 1 + rng.IntN(tokens)
	}
	if p == packed {
		cu := make([]int, n+1)
		for i, length := range lengths {
			cu[i+1] = cu[i] + length
		}
		return layout.Packed(cu[n]+1+rng.IntN(5), cu)
	}
	s := layout.Dense(n, tokens)
	if p == all {
		return s
	}
	valid := make([]bool, s.Rows)
	for row := range valid {
		length, t := lengths[row/tokens], row%tokens
		switch p {
		case prefix:
			valid[row] = t < length
		case left:
			valid[row] = t >= tokens-length
		case holes:
			valid[row] = rng.IntN(3) > 0
		}
	}
	return s.Masked(func(row int) bool { return valid[row] })
}

// values draws one element of a token row.
type values func(rng *rand.Rand) float64

// integers are small enough that every product and sum is exact in float32, and few enough that ties are common.
func integers(limit int) values {
	return func(rng *rand.Rand) float64 { return float64(rng.IntN(2*limit+1) - limit) }
}

func normal(rng *rand.Rand) float64 { return rng.NormFloat64() }

func normalOrNaN(rng *rand.Rand) float64 {
	if rng.IntN(100) == 0 {
		return math.NaN()
	}
	return rng.NormFloat64()
}

// between draws integers in [lo, hi].
func between(lo, hi int) values {
	return func(rng *rand.Rand) float64 { return float64(lo + rng.IntN(hi-lo+1)) }
}

// garbage is what rows hold that must have no effect.
var garbage = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e30, -1e30}

func problemName(s shape, group int, q, d pattern) string {
	if group > 0 {
		s.bd = s.bq * group
	}
	return fmt.Sprintf("%v,group=%d,q=%s,d=%s", s, group, q, d)
}

// newProblem draws a problem. With group > 0 every query has its own group documents and s.bd is not used.
func newProblem[T layout.Float](seed int, s shape, group int, q, d pattern, qv, dv, dsv values) *problem[T] {
	rng := rand.New(rand.NewPCG(uint64(seed), 0x6d617873696d))
	if group > 0 {
		s.bd = s.bq * group
	}
	b := &layout.Batch{Q: q.sequences(rng, s.bq, s.tq), D: d.sequences(rng, s.bd, s.td), Dim: s.dim, Group: group}
	p := &problem[T]{
		name:  problemName(s, group, q, d),
		b:     b,
		q:     rows[T](rng, &b.Q, s.dim, qv),
		d:     rows[T](rng, &b.D, s.dim, dv),
		ds:    make([]T, b.Q.Len()*b.Cols()),
		shift: seed,
	}
	for at := range p.ds {
		p.ds[at] = T(dsv(rng))
	}
	return p
}

// rows fills valid rows with values and all others with garbage.
func rows[T layout.Float](rng *rand.Rand, s *layout.Seqs, dim int, v values) []T {
	x := make([]T, s.Rows*dim)
	for row, valid := range validRows(s) {
		for k := range dim {
			if valid {
				x[row*dim+k] = T(v(rng))
			} else {
				x[row*dim+k] = T(garbage[rng.IntN(len(garbage))])
			}
		}
	}
	return x
}
