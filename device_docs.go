package maxsim

import (
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cuda"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// ResidentDocs are document tokens that stay on a GPU from run to run: a frozen collection, or the frozen tower of a
// pair. Nodes that name them in their [Config] upload no documents. Nothing looks whether the tensor they were made from
// has changed; it is the caller who says that it does not.
type ResidentDocs struct {
	device    *Device
	precision Precision
	shape     tensor.Shape
	dtype     tensor.Dtype
	docs      *cuda.Resident
}

// KeepDocs brings document tokens to the device and keeps them there until Release.
//
//	docs  [bd, td, dim]  float32 or float64
//	mask  [bd, td]       as Config.DocMask; nil: every token is valid
//
// precision is that of the nodes that will use them. A node that names the result must be frozen on the document side;
// its document input still gives the shape, and its mask must hold the same values.
func (d *Device) KeepDocs(docs, mask *tensor.Dense, precision Precision) (*ResidentDocs, error) {
	if d.isCPU() {
		return nil, fmt.Errorf("%w: documents can be kept on a CUDA device only", ErrConfig)
	}
	if err := (Config{Device: d, Precision: precision}).check(); err != nil {
		return nil, err
	}
	if docs == nil || docs.Dims() != 3 || docs.Shape()[2] < 1 {
		return nil, fmt.Errorf("%w: resident documents %v, expected [bd, td, dim]", ErrShape, shapeOf(docs))
	}
	r := &ResidentDocs{device: d, precision: precision, shape: docs.Shape().Clone(), dtype: docs.Dtype()}
	seqs := layout.Dense(r.shape[0], r.shape[1])
	if mask != nil {
		if !slices.Equal(mask.Shape(), r.shape[:2]) {
			return nil, fmt.Errorf("%w: document mask %v, expected %v for documents %v", ErrShape, mask.Shape(), r.shape[:2], r.shape)
		}
		valid, err := maskOf(mask, "document mask")
		if err != nil {
			return nil, err
		}
		seqs = seqs.Masked(func(row int) bool { return valid[row] })
	}
	var err error
	switch r.dtype {
	case tensor.Float32:
		r.docs, err = keep[float32](d, precision, &seqs, docs)
	case tensor.Float64:
		r.docs, err = keep[float64](d, precision, &seqs, docs)
	default:
		err = fmt.Errorf("%w: resident documents are %v, expected float32 or float64", ErrDtype, r.dtype)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func keep[T layout.Float](d *Device, p Precision, seqs *layout.Seqs, docs *tensor.Dense) (*cuda.Resident, error) {
	rows, err := rowMajor[T](docs, "resident documents")
	if err != nil {
		return nil, err
	}
	r, err := cuda.NewEngine[T](d.cuda, cuda.Precision(p)).Keep(seqs, docs.Shape()[2], rows)
	return r, deviceError(err)
}

func shapeOf(t *tensor.Dense) tensor.Shape {
	if t == nil {
		return nil
	}
	return t.Shape()
}

// Release gives the device memory back. Nodes that name the documents fail from then on. Releasing twice, or what KeepDocs
// did not return, does nothing.
func (r *ResidentDocs) Release() {
	if r != nil && r.docs != nil {
		r.docs.Release()
	}
}

// String tells the documents from all others.
func (r *ResidentDocs) String() string {
	if r == nil {
		return "none"
	}
	return fmt.Sprintf("%v(%p)", r.shape, r)
}

// checkResident reports whether a node with document tokens of the given shape and type can use resident documents.
func (c Config) checkResident(docs tensor.Shape, dt tensor.Dtype) error {
	r := c.ResidentDocs
	switch {
	case r == nil:
		return nil
	case r.device != c.Device || r.precision != c.Precision:
		return fmt.Errorf("%w: documents are resident on %v for %v, the node runs on %v in %v", ErrConfig, r.device, r.precision, c.Device, c.Precision)
	case !c.FrozenDocs:
		return fmt.Errorf("%w: resident documents need FrozenDocs", ErrConfig)
	case r.dtype != dt || !slices.Equal(r.shape, docs):
		return fmt.Errorf("%w: resident documents are %v %v, document tokens are %v %v", ErrShape, r.dtype, r.shape, dt, docs)
	}
	return nil
}
