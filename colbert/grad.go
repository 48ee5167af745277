package colbert

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Grad adds the gradients of a scalar loss by the nodes wrt to the graph, as gorgonia.Grad does, but the nodes need not
// be inputs: they may be what an [Embedding] has looked up. Like there, one call serves one graph. A node that the loss
// does not depend on, such as a look-up that only serves to read, is an error.
func Grad(loss *gorgonia.Node, wrt ...*gorgonia.Node) (_ gorgonia.Nodes, err error) {
	defer recoverInto("Grad", &err)
	if err := floatNode("Grad", "loss", loss); err != nil {
		return nil, err
	}
	if !loss.IsScalar() {
		return nil, fmt.Errorf("%w: Grad: loss has shape %v, expected a scalar", ErrShape, loss.Shape())
	}
	for i, n := range wrt {
		if err := checkNode("Grad", fmt.Sprintf("node %d of wrt", i), n); err != nil {
			return nil, err
		}
	}
	var one any = 1.0
	if loss.Dtype() == tensor.Float32 {
		one = float32(1)
	}
	upstream := loss.Graph().AddNode(gorgonia.NewConstant(one))
	grads, err := gorgonia.Backpropagate(gorgonia.Nodes{loss}, gorgonia.Nodes{upstream}, wrt)
	if err != nil { // of a type that errors.Is cannot look through
		return nil, fmt.Errorf("%w: Grad: %w", ErrValue, err)
	}
	return grads, nil
}
