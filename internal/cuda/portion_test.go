package cuda

import (
	"slices"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// TestEmptyDocumentsAtTheEnd made a portion more than there are marks for results: gradients of both sides panicked.
func TestEmptyDocumentsAtTheEnd(t *testing.T) {
	b := layout.Batch{Q: layout.Dense(2, 8), Dim: 64}
	const rows, empty = 16 * 16, 2
	dense := layout.Dense(16, 16)
	b.D = layout.Packed(rows, append(dense.Cu, slices.Repeat([]int{rows}, empty)...))
	if ends := cut(b.D.Cu, 1, 64*4, 1024); len(ends) != mostPortions || !slices.IsSorted(ends) || ends[mostPortions-1] != b.D.Len() {
		t.Errorf("portions that end at %v, expected %d and the last at %d", ends, mostPortions, b.D.Len())
	}
	dev, _ := openFake(t, 1<<26)
	dev.portionBytes = 1024
	q, d, scores := make([]float32, 2*8*64), make([]float32, rows*64), make([]float32, 2*(16+empty))
	e := NewEngine[float32](dev, BF16)
	tape, err := e.Forward(&b, q, d, scores, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Backward(&b, q, d, tape, scores, make([]float32, len(q)), make([]float32, len(d))); err != nil {
		t.Fatal(err)
	}
}
