package cuda

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

func TestStagingRoundTrip(t *testing.T) {
	d, f := openFake(t, 1<<26)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 4096, defaultPiece - 1, defaultPiece, defaultPiece + 1, 13*defaultPiece + 7} {
		src := make([]byte, n)
		for k := range src {
			src[k] = byte(rng.Uint32())
		}
		memory := &scope{pool: d.pool}
		a, err := memory.alloc(int64(n))
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, n)
		if n%2 == 0 {
			err = upload(d, a, src)
		} else {
			h := newShipment(d)
			half := n / 2
			h.add(a, src[:half], false)
			h.add(a+address(half), src[half:], true)
			if err = h.start(); err == nil {
				err = h.arrived(0)
				h.open(1)
				err = errors.Join(err, h.arrived(1))
			}
			h.end()
		}
		if err != nil {
			t.Fatal(err)
		}
		clear(src[:n/2]) // upload has taken it
		if err := download(d, dst, a); err != nil {
			t.Fatal(err)
		}
		if m, _ := f.device(a, int64(n)); n > 0 && !bytes.Equal(m, dst) {
			t.Errorf("%d bytes: what came back differs from what is on the device", n)
		}
		if n > 0 && (!bytes.Equal(dst[n/2:], src[n/2:]) || n > 8 && bytes.Equal(dst[:n/2], src[:n/2])) {
			t.Errorf("%d bytes: what came back differs from what was sent", n)
		}
		memory.close()
	}
}
