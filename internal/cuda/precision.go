package cuda

import "fmt"

// Precision says how float32 token rows are multiplied. Sums, scores and gradients are at least float32 in each;
// float64 rows are always computed in float64.
type Precision uint8

const (
	Float32 Precision = iota // as accurate as a float32 loop
	TF32                     // products of 11-bit mantissas
	BF16                     // products of bfloat16 values
	FP16                     // products of float16 values
)

var precisionNames = [...]string{"float32", "tf32", "bf16", "fp16"}

func (p Precision) String() string {
	if int(p) < len(precisionNames) {
		return precisionNames[p]
	}
	return fmt.Sprintf("precision(%d)", uint8(p))
}
