package cuda

import "github.com/flash-maxsim/gorgonia-maxsim/internal/layout"

// storage is how token rows lie on the device for the product, and which kernels go with it.
type storage struct {
	pack     string                // kernel that packs rows; none where the kernels read the user's rows
	product  string                // the forward kernels' name for it
	element  int64                 // bytes of a packed element
	width    func(dim int64) int64 // packed elements of a row
	split    bool                  // rows are two parts with a scale, and an exact kernel repairs the pairs that need it
	operand  string                // what the gradient kernels read
	ofPacked bool                  // they read the packed rows, else the user's
	size     int64                 // bytes of an element of the operand
}

// float32 products of dims below exactBelow go to the exact kernel: packing would cost more than it saves.
const exactBelow = 32

// storageOf depends on the element type, the precision and dim alone: nothing about a batch decides a pair's arithmetic.
func storageOf[T layout.Float](p Precision, dim int) storage {
	if isFloat64[T]() {
		return storage{product: "exact_f64", operand: "f64", size: 8}
	}
	switch {
	case p == BF16:
		return storage{pack: "maxsim_pack_bf16", product: "bf16", element: 2, width: multipleOf(8), operand: "bf16", ofPacked: true, size: 2}
	case p == FP16:
		return storage{pack: "maxsim_pack_f16", product: "f16", element: 2, width: multipleOf(8), operand: "f16", ofPacked: true, size: 2}
	case p == TF32:
		return storage{pack: "maxsim_pack_tf32", product: "tf32", element: 4, width: multipleOf(4), operand: "f32", size: 4}
	case dim < exactBelow:
		return storage{product: "exact_f32", operand: "f32", size: 4}
	}
	return storage{pack: "maxsim_pack_split", product: "split", element: 2,
		width: func(dim int64) int64 { return 2 * roundUp(dim, 32) }, split: true, operand: "f32", size: 4}
}

func multipleOf(n int64) func(int64) int64 {
	return func(dim int64) int64 { return roundUp(dim, n) }
}

func isFloat64[T layout.Float]() bool {
	var zero T
	_, ok := any(zero).(float64)
	return ok
}
