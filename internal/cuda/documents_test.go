package cuda

import (
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// TestGradientOfTheDocumentsAsAWhole used to lie on the device, with the counters of the inverse beside it: the largest
// thing of a training step, which leaves in portions anyway.
func TestGradientOfTheDocumentsAsAWhole(t *testing.T) {
	const dim, rowBytes = 16, 16 * 4
	long := layout.Dense(16, 1100) // more than one block sorts
	for _, c := range []struct {
		name         string
		q, d         layout.Seqs
		portionBytes int64
		want         int64 // bytes of dd on the device
	}{
		{"two of eight portions", layout.Dense(64, 8), layout.Dense(64, 40), 1 << 10, 2 * 8 * 40 * rowBytes},
		{"two of eight portions, segments", layout.Dense(4, 256), long, 1 << 10, 2 * 2 * 1100 * rowBytes},
		{"less than the counters", layout.Dense(1, 5*csrMost+4), layout.Dense(8, 40), 1 << 10, 6 * 8 * 40 * 4},
		{"two portions", layout.Dense(64, 8), layout.Dense(64, 40), 64 * 40 * rowBytes / 2, 64 * 40 * rowBytes},
		{"no portions", layout.Dense(64, 8), layout.Dense(64, 40), defaultPortionBytes, 64 * 40 * rowBytes},
		{"capacity", layout.Dense(64, 8), layout.Packed(64*40+80, layout.Dense(64, 40).Cu), 1 << 10, 2 * (8*40 + 80) * rowBytes},
		{"much capacity", layout.Dense(64, 8), layout.Packed(4*64*40, layout.Dense(64, 40).Cu), 1 << 10, 4 * 64 * 40 * rowBytes},
		{"a document that is most of them", layout.Dense(64, 8), layout.Packed(1000, []int{0, 10, 910, 1000}), 1 << 10, 1000 * rowBytes},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := layout.Batch{Q: c.q, D: c.d, Dim: dim}
			dev, _ := openFake(t, 1<<28)
			dev.portionBytes = c.portionBytes
			q, d, scores := make([]float32, b.Q.Rows*dim), make([]float32, b.D.Rows*dim), make([]float32, b.Q.Len()*b.D.Len())
			e := NewEngine[float32](dev, BF16)
			tape, err := e.Forward(&b, q, d, scores, true)
			if err != nil {
				t.Fatal(err)
			}
			for _, gradient := range []struct {
				dq, dd []float32
				want   int64
			}{{make([]float32, len(q)), nil, int64(len(q)) * 4}, {nil, make([]float32, len(d)), c.want}} {
				dev.ResetPeak()
				if err := e.Backward(&b, q, d, tape, scores, gradient.dq, gradient.dd); err != nil {
					t.Fatal(err)
				}
				m, err := dev.Memory()
				if err != nil {
					t.Fatal(err)
				}
				if got := m.Peak - m.Used; got != classOf(gradient.want) { // Used: what the tape holds from now on
					t.Errorf("%d bytes beside the tape's for a gradient of %d, expected %d",
						got, 4*(len(gradient.dq)+len(gradient.dd)), classOf(gradient.want))
				}
			}
		})
	}
}
