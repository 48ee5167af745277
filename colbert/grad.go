package colbert

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Grad adds the gradients of a scalar loss by the nodes wrt to the graph, as gorgonia.Grad does, but the nodes need not
// be inputs: they may be what an [Embedding] has looked up. Like there, one call serves one graph.
func Grad(loss *gorgonia.Node, wrt ...*gorgonia.Node) (_ gorgonia.Nodes, err error) {
	defer recoverInto("Grad", &err)
	if err := floatNode("Grad", "loss", loss); err != nil {
		return nil, err
	}
	if !loss.IsScalar() {
		return nil, fmt.Errorf("%w: Grad: loss has shape %v, want a scalar", ErrShape, loss.Shape())
	}
	for i, n := range wrt {
		if n == nil {
			return nil, fmt.Errorf("%w: Grad: node %d of wrt is nil", ErrValue, i)
		}
	}
	var one any = 1.0
	if loss.Dtype() == tensor.Float32 {
		one = float32(1)
	}
	upstream := loss.Graph().AddNode(gorgonia.NewConstant(one))
	return gorgonia.Backpropagate(gorgonia.Nodes{loss}, gorgonia.Nodes{upstream}, wrt)
}
