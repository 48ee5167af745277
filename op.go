package maxsim

import "gorgonia.org/gorgonia"

// protocol is what all ops of this package answer alike: fresh outputs, nothing in place, nothing preallocated.
type protocol struct{}

func (protocol) ReturnsPtr() bool     { return false }
func (protocol) CallsExtern() bool    { return false }
func (protocol) OverwritesInput() int { return -1 }

// undifferentiable is the protocol of the ops without a gradient: the tape is a record, an index has none, and MaxSim is
// piecewise linear, so second derivatives are not offered. Gorgonia wants a gradient op that says so, not none.
type undifferentiable struct{ protocol }

// DiffWRT is all false, one entry for each input.
func (undifferentiable) DiffWRT(inputs int) []bool { return make([]bool, inputs) }

// SymDiff returns no gradient node for any input.
func (undifferentiable) SymDiff(in gorgonia.Nodes, _, _ *gorgonia.Node) (gorgonia.Nodes, error) {
	return make(gorgonia.Nodes, len(in)), nil
}
