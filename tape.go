package maxsim

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// tape is the value of a tape node. It is a real int32 tensor, so that machines can clone, watch, log and zero it; the
// rest rides on it from the forward pass to the scores and the gradients of the same run. A machine that copies only the
// tensor loses the rest, and the ops then compute it again.
type tape struct {
	*tensor.Dense              // the argmax in the order of layout.Batch.TapeAt; a single -1 if it is not in host memory
	recorded      layout.Tape  // what the engine recorded; nil if nothing was asked for
	batch         layout.Batch // the sequences and masks of this run
	userShape     tensor.Shape // of the argmax as users see it
	scores        *tensor.Dense
}

func newTape(s spec, b *layout.Batch, shapes []tensor.Shape, recorded layout.Tape, scores *tensor.Dense) *tape {
	t := &tape{recorded: recorded, batch: *b, userShape: s.argmaxShape(shapes), scores: scores}
	if host, ok := recorded.(layout.HostTape); ok {
		t.Dense = denseOf(s.tapeShape(shapes), []int32(host))
	} else {
		t.Dense = denseOf(tensor.Shape{1, 1, 1}, []int32{-1})
	}
	return t
}

// tapeOf returns the tape among the values of an op's inputs, where it follows the node's own inputs. If the machine
// lost what rides on it, or if the argmax is needed and was not recorded, the forward pass runs again and what it
// recorded rides on from here.
func (s spec) tapeOf(in []gorgonia.Value, needArgmax bool) (*tape, error) {
	if len(in) != s.inputs()+1 {
		return nil, fmt.Errorf("%w: got %d values, expected %d inputs and a tape", ErrShape, len(in), s.inputs())
	}
	t, ok := in[s.inputs()].(*tape)
	if ok && (t.recorded != nil || !needArgmax) {
		return t, nil
	}
	again := &tapeOp{spec: s}
	again.record.Store(needArgmax)
	v, err := again.Do(in[:s.inputs()]...)
	if err != nil {
		return nil, err
	}
	if !ok {
		return v.(*tape), nil
	}
	*t = *v.(*tape)
	return t, nil
}

// recordArgmax has the tape among children store the argmax, and returns its op. Gorgonia may have replaced the tape node
// that a scores node was built with by an older, equal one, so it is always looked up here.
func recordArgmax(children gorgonia.Nodes) (*tapeOp, error) {
	if len(children) > 0 {
		if op, ok := children[len(children)-1].Op().(*tapeOp); ok {
			op.record.Store(true)
			return op, nil
		}
	}
	return nil, fmt.Errorf("%w: the scores node has lost its tape", ErrNode)
}

// scoresInputs returns the inputs of a scores node in order, the tape last.
func scoresInputs(scores *gorgonia.Node) (gorgonia.Nodes, error) {
	if scores == nil {
		return nil, fmt.Errorf("%w: scores node is nil", ErrNode)
	}
	if _, ok := scores.Op().(*scoresOp); !ok {
		return nil, fmt.Errorf("%w: %v is not a scores node of this package", ErrNode, scores)
	}
	it := scores.Graph().From(scores.ID())
	if it == nil {
		return nil, fmt.Errorf("%w: %v is not in its graph any more", ErrNode, scores)
	}
	inputs := make(gorgonia.Nodes, 0, it.Len())
	for it.Next() {
		inputs = append(inputs, it.Node().(*gorgonia.Node))
	}
	return inputs, nil
}
