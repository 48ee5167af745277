package maxsim

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
)

// protocol is what all ops of this package answer alike: fresh outputs, nothing in place, nothing preallocated.
type protocol struct{}

func (protocol) ReturnsPtr() bool     { return false }
func (protocol) CallsExtern() bool    { return false }
func (protocol) OverwritesInput() int { return -1 }

// undifferentiable is the protocol of the ops whose result is a record or an index, which has no gradient. Gorgonia wants
// a gradient op that says so, not none.
type undifferentiable struct{ protocol }

// DiffWRT is all false, one entry for each input.
func (undifferentiable) DiffWRT(inputs int) []bool { return make([]bool, inputs) }

// SymDiff returns no gradient node for any input.
func (undifferentiable) SymDiff(in gorgonia.Nodes, _, _ *gorgonia.Node) (gorgonia.Nodes, error) {
	return make(gorgonia.Nodes, len(in)), nil
}

// onceDifferentiable is the protocol of the ops that compute gradients: (q, d, …, tape, upstream) → a gradient. It depends
// on the other side's tokens and on the upstream gradient, but second derivatives are not offered.
type onceDifferentiable struct{ protocol }

// DiffWRT claims all inputs, so that a second derivative reaches SymDiff and its error: inputs that are not claimed are
// left out of a sum of gradients without a word.
func (onceDifferentiable) DiffWRT(inputs int) []bool { return slices.Repeat([]bool{true}, inputs) }

// SymDiff is an error.
func (onceDifferentiable) SymDiff(_ gorgonia.Nodes, gradient, _ *gorgonia.Node) (gorgonia.Nodes, error) {
	return nil, fmt.Errorf("%w: %v is a gradient, second derivatives of MaxSim are not offered", ErrNode, gradient)
}
