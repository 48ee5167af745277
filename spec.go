package maxsim

import (
	"fmt"
	"hash"
	"hash/fnv"
	"strings"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// form is the public layout of a MaxSim node.
type form uint8

const (
	inBatch form = iota
	paired
	candidates
	packed
)

var formNames = [...]string{"InBatch", "Paired", "Candidates", "Packed"}

func (f form) String() string { return formNames[f] }

// spec is everything constant about one MaxSim node. The inputs of its ops are, in this order: q, d, then cuQ and cuD
// if packed, then the query mask and the document mask if there are any; some ops add the tape and the upstream gradient.
type spec struct {
	form                     form
	group                    int // documents per query; 0: every query meets every document
	hasQueryMask, hasDocMask bool
	cfg                      Config // mask nodes removed: they are inputs
}

func (s spec) inputs() int { return len(s.inputNames()) }

// queryMaskAt and docMaskAt are the positions of the masks among the inputs.
func (s spec) queryMaskAt() int {
	if s.form == packed {
		return 4
	}
	return 2
}

func (s spec) docMaskAt() int {
	at := s.queryMaskAt()
	if s.hasQueryMask {
		at++
	}
	return at
}

// inputNames are the names of the inputs as error messages use them.
func (s spec) inputNames() []string {
	names := []string{"query tokens", "document tokens"}
	if s.form == packed {
		names = append(names, "query cu_seqlens", "document cu_seqlens")
	}
	if s.hasQueryMask {
		names = append(names, "query mask")
	}
	if s.hasDocMask {
		names = append(names, "document mask")
	}
	return names
}

// scoresShape returns the shape of the scores for checked input shapes.
func (s spec) scoresShape(shapes []tensor.Shape) tensor.Shape {
	switch s.form {
	case paired:
		return tensor.Shape{shapes[0][0]}
	case candidates:
		return tensor.Shape{shapes[0][0], s.group}
	case packed:
		return tensor.Shape{shapes[2][0] - 1, shapes[3][0] - 1}
	}
	return tensor.Shape{shapes[0][0], shapes[1][0]}
}

// argmaxShape returns the shape in which users see the argmax.
func (s spec) argmaxShape(shapes []tensor.Shape) tensor.Shape {
	scores := s.scoresShape(shapes)
	if s.form == packed {
		return tensor.Shape{shapes[0][0], scores[1]}
	}
	return append(scores, shapes[0][1])
}

// tapeShape returns the shape of the tape, a 3-tensor in every layout: all of its entries in the order of
// layout.Batch.TapeAt.
func (s spec) tapeShape(shapes []tensor.Shape) tensor.Shape {
	switch a := s.argmaxShape(shapes); s.form {
	case paired:
		return tensor.Shape{a[0], 1, a[1]}
	case packed:
		return tensor.Shape{a[0], a[1], 1}
	default:
		return a
	}
}

// shapesOf returns the checked shapes of the inputs that an op's InferShape was given.
func (s spec) shapesOf(in []gorgonia.DimSizer) ([]tensor.Shape, error) {
	shapes, err := gorgonia.DimSizersToShapes(in)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrShape, err)
	}
	if len(shapes) < s.inputs() {
		return nil, fmt.Errorf("%w: got %d inputs, expected at least %d", ErrShape, len(shapes), s.inputs())
	}
	return shapes, s.checkShapes(shapes)
}

const elem = hm.TypeVariable('a') // of q, d, scores and gradients; 'b' is reserved by Gorgonia's inferrer

func tensorType(dims int, of hm.Type) hm.Type { return gorgonia.TensorType{Dims: dims, Of: of} }

func (s spec) tokensType() hm.Type {
	if s.form == packed {
		return tensorType(2, elem)
	}
	return tensorType(3, elem)
}

func (s spec) scoresType() hm.Type {
	if s.form == paired {
		return tensorType(1, elem)
	}
	return tensorType(2, elem)
}

func (s spec) argmaxType() hm.Type {
	if s.form == inBatch || s.form == candidates {
		return tensorType(3, tensor.Int32)
	}
	return tensorType(2, tensor.Int32)
}

func tapeType() hm.Type { return tensorType(3, tensor.Int32) }

// funcType returns the type of an op over the inputs, then the given types. It is built anew for each call because
// Gorgonia returns function types to a pool.
func (s spec) funcType(more ...hm.Type) *hm.FunctionType {
	types := []hm.Type{s.tokensType(), s.tokensType()}
	maskDims := 2
	if s.form == packed {
		types = append(types, tensorType(1, tensor.Int32), tensorType(1, tensor.Int32))
		maskDims = 1
	}
	if s.hasQueryMask {
		types = append(types, tensorType(maskDims, hm.TypeVariable('m')))
	}
	if s.hasDocMask {
		types = append(types, tensorType(maskDims, hm.TypeVariable('n')))
	}
	return hm.NewFnType(append(types, more...)...)
}

// String names the node briefly: MaxSim.InBatch, MaxSim.Candidates(3, mean).
func (s spec) String() string {
	settings := s.cfg.brief()
	if s.form == candidates {
		settings = strings.TrimSuffix(fmt.Sprintf("%d, %s", s.group, settings), ", ")
	}
	if settings == "" {
		return "MaxSim." + s.form.String()
	}
	return fmt.Sprintf("MaxSim.%v(%s)", s.form, settings)
}

// writeHash writes every setting: Gorgonia merges nodes whose ops hash alike.
func (s spec) writeHash(h hash.Hash, role string) {
	fmt.Fprintf(h, "MaxSim.%v{group=%d queryMask=%t docMask=%t %v}.%s", s.form, s.group, s.hasQueryMask, s.hasDocMask, s.cfg, role)
}

func hashcode(op gorgonia.Op) uint32 {
	h := fnv.New32a()
	op.WriteHash(h)
	return h.Sum32()
}
