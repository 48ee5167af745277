package cuda

import (
	"errors"
	"strings"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

func TestClassWastesAtMostAnEighth(t *testing.T) {
	previous := int64(0)
	for bytes := int64(1); bytes < 1<<22; bytes += 1 + bytes/97 {
		class := classOf(bytes)
		if class < bytes || class%512 != 0 || class < previous || classOf(class) != class {
			t.Fatalf("class of %d bytes is %d after %d", bytes, class, previous)
		}
		if bytes > 8*512 && class-bytes > bytes/8 {
			t.Fatalf("class of %d bytes is %d, more than an eighth is wasted", bytes, class)
		}
		previous = class
	}
}

func TestPoolUsesBlocksAgain(t *testing.T) {
	f := newFake(1 << 20)
	p := newPool(f)
	a, _ := p.get(1000)
	p.put(a)
	b, err := p.get(900)
	if err != nil || b != a {
		t.Errorf("got %v, %v; expected the idle block %v", b, err, a)
	}
	if r := p.report(); r.Used != a.bytes || r.Held != a.bytes || r.Peak != a.bytes {
		t.Errorf("report %+v, expected one block of %d bytes", r, a.bytes)
	}
}

func TestPoolGivesIdleBlocksUpBeforeItIsFull(t *testing.T) {
	f := newFake(1 << 20)
	p := newPool(f)
	if err := p.setLimit(8192); err != nil {
		t.Fatal(err)
	}
	for _, bytes := range []int64{512, 1024, 2048, 4096} {
		b, err := p.get(bytes)
		if err != nil {
			t.Fatal(err)
		}
		p.put(b)
	}
	b, err := p.get(8192)
	if err != nil || f.used != 8192 {
		t.Errorf("%v, %d bytes taken from the card, expected the limit of 8192", err, f.used)
	}
	p.put(b)
	if err := p.setLimit(4096); err != nil || f.used != 0 {
		t.Errorf("%v, %d bytes held under a limit of 4096", err, f.used)
	}
}

func TestOutOfMemorySaysWhatWasAskedFor(t *testing.T) {
	for name, limit := range map[string]int64{"limit": 4096, "card": 0} {
		t.Run(name, func(t *testing.T) {
			p := newPool(newFake(4096))
			p.limit = limit
			held, err := p.get(2048)
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.get(3000)
			if !errors.Is(err, ErrOutOfMemory) || !strings.Contains(err.Error(), "asked for 3000 bytes with 2048 in use") {
				t.Errorf("got %v", err)
			}
			p.put(held)
			if _, err := p.get(3000); err != nil {
				t.Errorf("after giving back: %v", err)
			}
		})
	}
}

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
