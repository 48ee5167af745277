package maxsim

import (
	"errors"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// counting is a row-major tensor holding 0, 1, 2, …
func counting(shape ...int) *tensor.Dense {
	data := make([]float32, tensor.ProdInts(shape))
	for k := range data {
		data[k] = float32(k)
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))
}

// TestRowMajorReadsEveryMemoryOrder: views, transposes and column-major tensors give the elements that At gives.
func TestRowMajorReadsEveryMemoryOrder(t *testing.T) {
	transposed := func(x *tensor.Dense, axes ...int) *tensor.Dense {
		if err := x.T(axes...); err != nil {
			t.Fatal(err)
		}
		return x
	}
	sliced := func(x *tensor.Dense, s ...tensor.Slice) *tensor.Dense {
		view, err := x.Slice(s...)
		if err != nil {
			t.Fatal(err)
		}
		return view.(*tensor.Dense)
	}
	colMajor := tensor.New(tensor.WithShape(2, 3, 4), tensor.Of(tensor.Float32), tensor.AsFortran(nil))
	for k := range 24 {
		if err := colMajor.SetAt(float32(k), k/12, k/4%3, k%4); err != nil {
			t.Fatal(err)
		}
	}
	for name, x := range map[string]*tensor.Dense{
		"contiguous":           counting(2, 3, 4),
		"one element":          counting(1, 1, 1),
		"vector":               counting(5),
		"column-major":         colMajor,
		"transposed":           transposed(counting(2, 3, 4), 2, 0, 1),
		"transposed twice":     transposed(transposed(counting(2, 3, 4), 2, 0, 1), 1, 0, 2),
		"leading slice":        sliced(counting(4, 3, 4), tensor.S(1, 3)),
		"middle slice":         sliced(counting(2, 5, 4), nil, tensor.S(1, 4)),
		"inner slice":          sliced(counting(2, 3, 8), nil, nil, tensor.S(3, 7)),
		"strided slice":        sliced(counting(2, 6, 4), nil, tensor.S(0, 6, 2)),
		"slice of a transpose": sliced(transposed(counting(4, 3, 6), 2, 1, 0), tensor.S(1, 5), nil, tensor.S(1, 3)),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rowMajor[float32](x, "x")
			if err != nil {
				t.Fatal(err)
			}
			shape := x.Shape()
			if len(got) != shape.TotalSize() {
				t.Fatalf("%d elements for shape %v", len(got), shape)
			}
			index := make([]int, len(shape))
			for k := range got {
				rest := k
				for axis := len(shape) - 1; axis >= 0; axis-- {
					index[axis], rest = rest%shape[axis], rest/shape[axis]
				}
				want, err := x.At(index...)
				if err != nil {
					t.Fatal(err)
				}
				if got[k] != want {
					t.Fatalf("element %v is %v, expected %v; all: %v", index, got[k], want, got)
				}
			}
		})
	}
}

// TestColumnMajorWithAxesOfOne: package tensor gives these fewer strides than axes, which once was an [ErrInternal], and
// from KeepDocs a panic.
func TestColumnMajorWithAxesOfOne(t *testing.T) {
	for _, shape := range []tensor.Shape{{1}, {1, 1}, {1, 1, 1}, {1, 5}, {5, 1}, {1, 5, 1}, {5, 1, 2}} {
		x := tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float32), tensor.AsFortran(nil))
		want := make([]float32, shape.TotalSize())
		for k := range want {
			want[k] = float32(k)
		}
		at := x.Float32s() // an axis of 5 before one of 2 is what column-major order turns round
		for k, v := range want {
			if shape.Eq(tensor.Shape{5, 1, 2}) {
				k = k%2*5 + k/2
			}
			at[k] = v
		}
		if got, err := rowMajor[float32](x, "x"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %v, %v, expected %v", shape, got, err, want)
		}
	}
}

// TestValuesThatAreNoPlainTensor are answered with errors.
func TestValuesThatAreNoPlainTensor(t *testing.T) {
	masked := counting(2, 2)
	masked.SetMask(make([]bool, 4))
	for name, v := range map[string]gorgonia.Value{
		"scalar":       gorgonia.NewF32(1),
		"tensor mask":  masked,
		"sparse":       tensor.CSRFromCoord(tensor.Shape{2, 2}, []int{0, 1}, []int{0, 1}, []float32{1, 1}),
		"other dtype":  tensor.New(tensor.WithShape(2, 2), tensor.Of(tensor.Float64)),
		"scalar dense": tensor.New(tensor.FromScalar(float32(1))),
	} {
		if _, err := rowMajor[float32](v, "x"); !errors.Is(err, ErrDtype) {
			t.Errorf("%s: got %v, expected %v", name, err, ErrDtype)
		}
	}
}

// TestMaskDtypes: a mask may be bool or any integer or float type.
func TestMaskDtypes(t *testing.T) {
	want := []bool{true, false, true}
	for _, backing := range []any{
		want, []int{1, 0, 1}, []int8{1, 0, 1}, []int16{1, 0, 1}, []int32{1, 0, 1}, []int64{1, 0, 1}, []uint{1, 0, 1},
		[]uint8{1, 0, 1}, []uint16{1, 0, 1}, []uint32{1, 0, 1}, []uint64{1, 0, 1}, []float32{1, 0, 1}, []float64{1, 0, 1},
	} {
		got, err := maskOf(tensor.New(tensor.WithShape(3), tensor.WithBacking(backing)), "mask")
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%T: %v, %v", backing, got, err)
		}
	}
	if _, err := maskOf(tensor.New(tensor.WithShape(3), tensor.Of(tensor.Complex64)), "mask"); !errors.Is(err, ErrDtype) {
		t.Errorf("complex mask: %v", err)
	}
}
