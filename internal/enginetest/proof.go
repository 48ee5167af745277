package enginetest

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/oracle"
)

// proof reports that a problem does not ask what it is there for, so that a comparison would say nothing.
type proof func(b *layout.Batch, r *oracle.Result[float64]) error

// several demands more than one winner wherever enough query tokens have a choice.
func several(_ *layout.Batch, r *oracle.Result[float64]) error {
	winners, choices := map[int32]bool{}, 0
	for at, u := range r.Argmax {
		if u >= 0 && !math.IsInf(r.Margin[at], 1) {
			winners[u] = true
			choices++
		}
	}
	if choices >= 16 && len(winners) < 2 {
		return fmt.Errorf("one index wins all of %d query tokens", choices)
	}
	return nil
}

// ties demands query tokens with more than one best document token.
func ties(_ *layout.Batch, r *oracle.Result[float64]) error {
	n := 0
	for _, m := range r.Margin {
		if m == 0 {
			n++
		}
	}
	if n < 10 {
		return fmt.Errorf("%d ties", n)
	}
	return nil
}

// tiesOnly demands that nothing but ties occurs.
func tiesOnly(_ *layout.Batch, r *oracle.Result[float64]) error {
	for _, m := range r.Margin {
		if m != 0 {
			return fmt.Errorf("margin %g, want a tie everywhere", m)
		}
	}
	return nil
}

// negatives demands that every score with a winner is below zero.
func negatives(_ *layout.Batch, r *oracle.Result[float64]) error {
	n := 0
	for _, s := range r.Scores {
		if s > 0 {
			return fmt.Errorf("a score is %g", s)
		}
		if s < 0 {
			n++
		}
	}
	if n == 0 {
		return errors.New("no score is negative")
	}
	return nil
}

// winners demands that each of the given tokens wins somewhere.
func winners(tokens ...int32) proof {
	return func(_ *layout.Batch, r *oracle.Result[float64]) error {
		for _, u := range tokens {
			if !slices.Contains(r.Argmax, u) {
				return fmt.Errorf("token %d wins nowhere", u)
			}
		}
		return nil
	}
}

// onlyWinner demands that one token of document 0 wins every query token.
func onlyWinner(u int32) proof {
	return func(b *layout.Batch, r *oracle.Result[float64]) error {
		for i := range b.Q.Len() {
			at := b.TapeAt(i, 0)
			for t := range b.Q.Tokens(i) {
				if r.Argmax[at+t] != u {
					return fmt.Errorf("token %d wins, not the hub %d", r.Argmax[at+t], u)
				}
			}
		}
		return nil
	}
}
