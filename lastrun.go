package maxsim

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// LastArgmax returns the argmax of the last run of a scores node, in the shape that [Argmax] documents, without a node
// of its own. It is the way to read the argmax beside gradients on a LispMachine, which accepts no roots but scalars.
// The graph must have stored the argmax: it differentiates the scores, or [Argmax] was called.
func LastArgmax(scores *gorgonia.Node) (*tensor.Dense, error) {
	inputs, t, err := lastRun(scores)
	if err != nil {
		return nil, err
	}
	shapes := make([]tensor.Shape, len(inputs))
	for k, n := range inputs {
		shapes[k] = n.Shape()
	}
	return scores.Op().(*scoresOp).userArgmax(t, shapes)
}

// lastRun returns the inputs of a scores node and the tape of its last run.
func lastRun(scores *gorgonia.Node) (gorgonia.Nodes, *tape, error) {
	inputs, err := scoresInputs(scores)
	if err != nil {
		return nil, nil, err
	}
	t, ok := inputs[len(inputs)-1].Value().(*tape)
	if !ok || t.recorded == nil {
		return nil, nil, fmt.Errorf("%w: the last run of %v stored no argmax (not run, not differentiated, and Argmax not called)", ErrNode, scores)
	}
	return inputs, t, nil
}
