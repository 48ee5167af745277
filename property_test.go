package maxsim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/casefile"
)

// sample is a batch of dense queries and documents with float32 noise, in which another order of any sum shows.
type sample struct {
	bq, tq, bd, td, dim int
	q, d                []float32
	validQ, validD      []bool
}

func newSample(rng *rand.Rand) sample {
	s := sample{bq: 1 + rng.IntN(4), tq: 1 + rng.IntN(20), td: 1 + rng.IntN(40), dim: 1 + rng.IntN(70)}
	s.bd = s.bq
	s.q, s.d = converted[float32](normal(rng, s.bq*s.tq*s.dim)), converted[float32](normal(rng, s.bd*s.td*s.dim))
	s.validQ, s.validD = make([]bool, s.bq*s.tq), make([]bool, s.bd*s.td)
	for _, valid := range [][]bool{s.validQ, s.validD} {
		for at := range valid {
			valid[at] = rng.IntN(4) > 0
		}
	}
	return s
}

// values are the inputs of a dense layout.
func (s sample) values() values {
	return values{q: dense(s.q, s.bq, s.tq, s.dim), d: dense(s.d, s.bd, s.td, s.dim),
		maskQ: dense(s.validQ, s.bq, s.tq), maskD: dense(s.validD, s.bd, s.td)}
}

// packed leaves masked tokens out: the inputs of Packed, and where each kept token was in its sequence.
func (s sample) packed() (v values, keptQ, keptD [][]int) {
	pack := func(x []float32, valid []bool, n, tokens int) (rows, cu *tensor.Dense, kept [][]int) {
		var data []float32
		at := []int{0}
		for i := range n {
			var of []int
			for t := range tokens {
				if row := i*tokens + t; valid[row] {
					data = append(data, x[row*s.dim:(row+1)*s.dim]...)
					of = append(of, t)
				}
			}
			kept, at = append(kept, of), append(at, at[i]+len(of))
		}
		for range 2 * s.dim {
			data = append(data, float32(math.NaN())) // capacity
		}
		return dense(data, len(data)/s.dim, s.dim), offsets(at), kept
	}
	v.q, v.cuQ, keptQ = pack(s.q, s.validQ, s.bq, s.tq)
	v.d, v.cuD, keptD = pack(s.d, s.validD, s.bd, s.td)
	return v, keptQ, keptD
}

// run runs a setting once on a TapeMachine.
func run(t *testing.T, s setting, v values) outputs[float32] {
	t.Helper()
	p, err := compile[float32](machines[0], s, v)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	got, err := p.step(v)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A pair has the same bits in every layout: among all pairs, as a pair, as a candidate, packed, and at more padding.
func TestAPairIsTheSameInEveryLayout(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := newSample(rng)
		all := run(t, setting{layout: casefile.AllPairs}, s.values())
		argmax := func(i, j int) []int32 { return all.argmax[(i*s.bd+j)*s.tq:][:s.tq] }
		check := func(where string, i, j int, score float32, got []int32) {
			t.Helper()
			if want := all.scores[i*s.bd+j]; score != want {
				t.Errorf("seed %d, query %d, document %d: %v %s, %v among all pairs", seed, i, j, score, where, want)
			}
			if want := argmax(i, j); got != nil && !slices.Equal(got, want) {
				t.Errorf("seed %d, query %d, document %d: argmax %v %s, %v among all pairs", seed, i, j, got, where, want)
			}
		}
		pairs := run(t, setting{layout: casefile.Paired}, s.values())
		candidate := run(t, setting{layout: casefile.Candidates, group: 1}, s.values())
		for i := range s.bq {
			check("as a pair", i, i, pairs.scores[i], pairs.argmax[i*s.tq:][:s.tq])
			check("as a candidate", i, i, candidate.scores[i], candidate.argmax[i*s.tq:][:s.tq])
		}
		longer := run(t, setting{layout: casefile.AllPairs}, s.longer(rng).values())
		v, keptQ, keptD := s.packed()
		tight := run(t, setting{layout: casefile.Packed}, v)
		row := 0
		for i := range s.bq {
			for j := range s.bd {
				check("at more padding", i, j, longer.scores[i*s.bd+j], longer.argmax[(i*s.bd+j)*(s.tq+3):][:s.tq])
				got := slices.Repeat([]int32{-1}, s.tq)
				for n, t := range keptQ[i] {
					if u := tight.argmax[(row+n)*s.bd+j]; u >= 0 {
						got[t] = int32(keptD[j][u])
					}
				}
				check("packed", i, j, tight.scores[i*s.bd+j], got)
			}
			row += len(keptQ[i])
		}
	}
}

// longer puts three masked tokens of garbage behind every sequence.
func (s sample) longer(rng *rand.Rand) sample {
	grow := func(x []float32, valid []bool, n, tokens int) (y []float32, more []bool) {
		for i := range n {
			y = append(y, x[i*tokens*s.dim:(i+1)*tokens*s.dim]...)
			for range 3 * s.dim {
				y = append(y, []float32{float32(math.Inf(1)), float32(math.NaN()), 1e30}[rng.IntN(3)])
			}
			more = append(append(more, valid[i*tokens:(i+1)*tokens]...), false, false, false)
		}
		return y, more
	}
	s.q, s.validQ = grow(s.q, s.validQ, s.bq, s.tq)
	s.d, s.validD = grow(s.d, s.validD, s.bd, s.td)
	s.tq, s.td = s.tq+3, s.td+3
	return s
}

// Copies of a document's tokens behind it change nothing and get no gradient.
func TestCopiesOfTokensGetNothing(t *testing.T) {
	for seed := range uint64(20) {
		s := newSample(rand.New(rand.NewPCG(seed, 4)))
		twice := s
		twice.td, twice.d, twice.validD = 2*s.td, nil, nil
		for j := range s.bd {
			for range 2 {
				twice.d = append(twice.d, s.d[j*s.td*s.dim:(j+1)*s.td*s.dim]...)
				twice.validD = append(twice.validD, s.validD[j*s.td:(j+1)*s.td]...)
			}
		}
		upstream := dense(converted[float32](normal(rand.New(rand.NewPCG(seed, 5)), s.bq*s.bd)), s.bq, s.bd)
		v, w := s.values(), twice.values()
		v.upstream, w.upstream = upstream, upstream
		want, got := run(t, setting{layout: casefile.AllPairs, grads: true}, v), run(t, setting{layout: casefile.AllPairs, grads: true}, w)
		var dd []float32
		for j := range s.bd {
			dd = append(dd, want.dd[j*s.td*s.dim:(j+1)*s.td*s.dim]...)
			dd = append(dd, make([]float32, s.td*s.dim)...)
		}
		want.dd = dd
		checkSameBits(t, got, want)
	}
}

// A power of two before q comes out before the scores and ∇d, bit for bit; another order of the documents is another
// order of the columns.
func TestScalingAndOrder(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 6))
			s := newSample(rng)
			v := s.values()
			v.upstream = dense(converted[float32](normal(rng, s.bq*s.bd)), s.bq, s.bd)
			inBatch := setting{layout: casefile.AllPairs, grads: true}
			want := run(t, inBatch, v)
			scaled := v
			scaled.q = dense(scaledBy(8, s.q), s.bq, s.tq, s.dim)
			times8 := want
			times8.scores, times8.dd = scaledBy(8, want.scores), scaledBy(8, want.dd)
			checkSameBits(t, run(t, inBatch, scaled), times8)

			order := rng.Perm(s.bd)
			turned := v
			turned.d = dense(permuted(s.d, s.td*s.dim, order), s.bd, s.td, s.dim)
			turned.maskD = dense(permuted(s.validD, s.td, order), s.bd, s.td)
			got := run(t, setting{layout: casefile.AllPairs}, values{q: turned.q, d: turned.d, maskQ: turned.maskQ, maskD: turned.maskD})
			for i := range s.bq {
				row := want.scores[i*s.bd : (i+1)*s.bd]
				if at := firstDifference(got.scores[i*s.bd:(i+1)*s.bd], permuted(row, 1, order)); at >= 0 {
					t.Errorf("query %d, column %d differs", i, at)
				}
			}
		})
	}
}

func scaledBy(factor float32, x []float32) []float32 {
	out := make([]float32, len(x))
	for at, v := range x {
		out[at] = factor * v
	}
	return out
}

// permuted puts blocks of the given size in another order.
func permuted[T any](x []T, block int, order []int) []T {
	var out []T
	for _, n := range order {
		out = append(out, x[n*block:(n+1)*block]...)
	}
	return out
}
