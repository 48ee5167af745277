package maxsim

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// batchOf turns the inputs of one run, in whatever public layout, into token rows, sequences and pairing.
func (s spec) batchOf(in []gorgonia.Value, shapes []tensor.Shape) (layout.Batch, error) {
	b := layout.Batch{Dim: shapes[0][shapes[0].Dims()-1], Group: s.group}
	var err error
	if b.Q, err = s.seqsOf(0, in, shapes); err != nil {
		return b, err
	}
	b.D, err = s.seqsOf(1, in, shapes)
	return b, err
}

// seqsOf returns the sequences of one side (0: queries, 1: documents).
func (s spec) seqsOf(side int, in []gorgonia.Value, shapes []tensor.Shape) (seqs layout.Seqs, err error) {
	names := s.inputNames()
	tokens := shapes[side]
	if s.form == packed {
		cu, err := offsets(in[2+side], tokens[0], names[2+side])
		if err != nil {
			return seqs, err
		}
		seqs = layout.Packed(tokens[0], cu)
	} else {
		seqs = layout.Dense(tokens[0], tokens[1])
	}
	has, at := s.hasQueryMask, s.queryMaskAt()
	if side == 1 {
		has, at = s.hasDocMask, s.docMaskAt()
	}
	if !has {
		return seqs, nil
	}
	valid, err := maskOf(in[at], names[at])
	if err != nil {
		return seqs, err
	}
	return seqs.Masked(func(row int) bool { return valid[row] }), nil
}

// offsets checks cu_seqlens over the given number of rows.
func offsets(v gorgonia.Value, rows int, name string) ([]int, error) {
	raw, err := rowMajor[int32](v, name)
	if err != nil {
		return nil, err
	}
	cu := make([]int, len(raw))
	for i, at := range raw {
		cu[i] = int(at)
		switch {
		case i == 0 && at != 0:
			return nil, fmt.Errorf("%w: %s start at %d, expected 0", ErrOffsets, name, at)
		case i > 0 && at < raw[i-1]:
			return nil, fmt.Errorf("%w: %s decrease from %d to %d at index %d", ErrOffsets, name, raw[i-1], at, i)
		}
	}
	if last := cu[len(cu)-1]; last > rows {
		return nil, fmt.Errorf("%w: %s end at %d, the tokens have %d rows", ErrOffsets, name, last, rows)
	}
	return cu, nil
}

// maskDtypes are the element types of a mask.
var maskDtypes = []tensor.Dtype{tensor.Bool, tensor.Int, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64,
	tensor.Uint, tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64, tensor.Float32, tensor.Float64}

// maskOf returns a mask as booleans.
func maskOf(v gorgonia.Value, name string) ([]bool, error) {
	switch v.Dtype() {
	case tensor.Bool:
		return rowMajor[bool](v, name)
	case tensor.Int:
		return zeroOne[int](v, name)
	case tensor.Int8:
		return zeroOne[int8](v, name)
	case tensor.Int16:
		return zeroOne[int16](v, name)
	case tensor.Int32:
		return zeroOne[int32](v, name)
	case tensor.Int64:
		return zeroOne[int64](v, name)
	case tensor.Uint:
		return zeroOne[uint](v, name)
	case tensor.Uint8:
		return zeroOne[uint8](v, name)
	case tensor.Uint16:
		return zeroOne[uint16](v, name)
	case tensor.Uint32:
		return zeroOne[uint32](v, name)
	case tensor.Uint64:
		return zeroOne[uint64](v, name)
	case tensor.Float32:
		return zeroOne[float32](v, name)
	case tensor.Float64:
		return zeroOne[float64](v, name)
	}
	return nil, fmt.Errorf("%w: %s is %v, expected bool or an integer or float type", ErrDtype, name, v.Dtype())
}

type number interface {
	int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

func zeroOne[T number](v gorgonia.Value, name string) ([]bool, error) {
	raw, err := rowMajor[T](v, name)
	if err != nil {
		return nil, err
	}
	valid := make([]bool, len(raw))
	for k, x := range raw {
		if x != 0 && x != 1 {
			return nil, fmt.Errorf("%w: %s %v holds %v at flat index %d, expected 0 or 1", ErrMask, name, v.Shape(), x, k)
		}
		valid[k] = x == 1
	}
	return valid, nil
}
