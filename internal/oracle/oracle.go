// Package oracle computes MaxSim and its gradients from the definition, with plain loops, so that every engine can be
// held to it. It shares no code with an engine and knows shapes only through package layout.
//
// Everything is generic over two types: T, in which token rows are stored, and S, in which products, sums and
// gradients are computed. S = float64 is the reference; S = T is the naive loop in the precision of the data, whose
// error against the reference is the yardstick for an engine's error.
package oracle

import (
	"math"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Result is a forward pass. Scores and Scale are [bq, cols]; Argmax and Margin are in the order of Batch.TapeAt.
type Result[S layout.Float] struct {
	Scores []S

	// Argmax is the index u of the winning token inside its document, the lowest among equals; -1 for a masked query
	// token, an empty document or a capacity row. Where a similarity is NaN it is the lowest u with a NaN: an engine
	// may return any valid token there.
	Argmax []int32

	// Margin is the gap between the best and the second best similarity of a query token: 0 for a tie, +Inf where
	// fewer than two tokens compete, NaN where a similarity is NaN.
	Margin []float64

	// Scale is Σ_t max_u Σ_k |q[i,t,k]·d[j,u,k]|, what the rounding error of a score is proportional to.
	Scale []float64
}

// Forward computes
//
//	scores[i,k] = Σ_t max_u ⟨q[i,t,:], d[j,u,:]⟩    j = b.Doc(i,k); t and u over valid tokens
//
// with products and sums in S, one after the other in ascending order.
func Forward[S, T layout.Float](b *layout.Batch, q, d []T) Result[S] {
	bq, cols := b.Q.Len(), b.Cols()
	r := Result[S]{
		Scores: make([]S, bq*cols),
		Argmax: make([]int32, b.TapeLen()),
		Margin: make([]float64, b.TapeLen()),
		Scale:  make([]float64, bq*cols),
	}
	for at := range r.Argmax {
		r.Argmax[at], r.Margin[at] = -1, math.Inf(1)
	}
	for i := range bq {
		for k := range cols {
			j, cell := b.Doc(i, k), i*cols+k
			candidates := valid(&b.D, j)
			for _, t := range valid(&b.Q, i) {
				best := match[S](b, q, d, i, t, j, candidates)
				at := b.TapeAt(i, k) + t
				r.Argmax[at], r.Margin[at] = best.u, best.margin
				if best.u >= 0 {
					r.Scores[cell] += best.sim
					r.Scale[cell] += best.scale
				}
			}
		}
	}
	return r
}

// MinMargin returns the smallest margin of any query token without a NaN, +Inf where there is none.
func (r *Result[S]) MinMargin() float64 {
	least := math.Inf(1)
	for _, m := range r.Margin {
		if m < least {
			least = m
		}
	}
	return least
}

// Similarity returns ⟨q[i,t,:], d[j,u,:]⟩ in S, and the sum of the absolute products.
func Similarity[S, T layout.Float](b *layout.Batch, q, d []T, i, t, j, u int) (sim S, scale float64) {
	qrow, drow := (b.Q.Cu[i]+t)*b.Dim, (b.D.Cu[j]+u)*b.Dim
	for k := range b.Dim {
		product := S(q[qrow+k]) * S(d[drow+k])
		sim += S(product)
		scale += math.Abs(float64(product))
	}
	return sim, scale
}

// winner is the best document token for one query token.
type winner[S layout.Float] struct {
	u             int32
	sim           S
	margin, scale float64
}

// match returns which of the candidates among the tokens of document j query token t of query i matches best.
func match[S, T layout.Float](b *layout.Batch, q, d []T, i, t, j int, candidates []int) winner[S] {
	best := winner[S]{u: -1, margin: math.Inf(1)}
	for _, u := range candidates {
		sim, scale := Similarity[S](b, q, d, i, t, j, u)
		best.scale = max(best.scale, scale)
		gap := math.Abs(float64(best.sim) - float64(sim))
		if sim == best.sim {
			gap = 0 // also between equal infinities
		}
		switch {
		case best.u < 0:
			best.u, best.sim = int32(u), sim
		case best.sim != best.sim:
			// A NaN stays.
		case sim != sim || sim > best.sim:
			best.u, best.sim, best.margin = int32(u), sim, gap
		default:
			best.margin = min(best.margin, gap)
		}
	}
	if best.sim != best.sim {
		best.margin = math.NaN()
	}
	return best
}

// valid lists the valid tokens of sequence i by their index inside the sequence, ascending.
func valid(s *layout.Seqs, i int) []int {
	var tokens []int
	for _, run := range s.RunsOf(i) {
		for row := run.Lo; row < run.Hi; row++ {
			tokens = append(tokens, row-s.Cu[i])
		}
	}
	return tokens
}
