package maxsim

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// LastArgmax returns the argmax of the last run of a scores node, in the shape that [Argmax] documents, without a node
// of its own. It is the way to read the argmax beside gradients on a LispMachine, which accepts no roots but scalars.
// The graph must have stored the argmax: it differentiates the scores, or [Argmax] was called before the machine was
// made. On a GPU only the latter keeps it on a TapeMachine, where the argmax is given back after the last gradient. A run
// that ends with an error before the scores leaves the argmax of the run before.
func LastArgmax(scores *gorgonia.Node) (*tensor.Dense, error) {
	t, err := lastRun(scores)
	if err != nil {
		return nil, err
	}
	return scores.Op().(*scoresOp).userArgmax(t)
}

// lastRun returns the tape of the last run of a scores node.
func lastRun(scores *gorgonia.Node) (*tape, error) {
	inputs, err := scoresInputs(scores)
	if err != nil {
		return nil, err
	}
	switch t, ok := inputs[len(inputs)-1].Value().(*tape); {
	case !ok:
		return nil, fmt.Errorf("%w: %v has no argmax: it has not run, or on a machine that keeps copies (gorgonia.TraceExec)", ErrNode, scores)
	case t.recorded == nil:
		return nil, fmt.Errorf("%w: %v has no argmax: its graph neither differentiates the scores nor asks for Argmax", ErrNode, scores)
	default:
		return t, nil
	}
}
