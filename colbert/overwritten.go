package colbert

import (
	"fmt"

	"gorgonia.org/gorgonia"
)

// overwritten returns an error if g, the gradient of n, is no longer what was computed. A TapeMachine lets a binary
// elementwise op write its result into its first operand when nothing reads that later. It spares the gradients of
// inputs, but not those of other nodes, unless they have been added to a dual value; and it does not know that what
// Reshape returns lies in the memory of what it was given. So whoever wrote into g is found by where its value lies.
func overwritten(n *gorgonia.Node, g gorgonia.Value) error {
	d := n.Deriv()
	if d == nil || d.Value() != g {
		return nil
	}
	before := map[*gorgonia.Node]bool{}
	dependencies(d, before)
	for _, m := range n.Graph().AllNodes() {
		if _, writes := m.Op().(gorgonia.UsePreallocDoer); writes && !before[m] && overlap(m.Value(), g) {
			return fmt.Errorf("%w: gradient was overwritten by %v: run with gorgonia.BindDualValues", ErrValue, m.Op())
		}
	}
	return nil
}

// dependencies adds n, and all nodes that it is computed from, to set.
func dependencies(n *gorgonia.Node, set map[*gorgonia.Node]bool) {
	if set[n] {
		return
	}
	set[n] = true
	for operands := n.Graph().From(n.ID()); operands.Next(); {
		dependencies(operands.Node().(*gorgonia.Node), set)
	}
}

// overlap reports whether two values have memory in common.
func overlap(a, b gorgonia.Value) bool {
	return a != nil && b != nil && a.Uintptr() < b.Uintptr()+b.MemSize() && b.Uintptr() < a.Uintptr()+a.MemSize()
}
