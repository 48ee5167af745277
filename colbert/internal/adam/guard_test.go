//go:build linux

package adam

import (
	"slices"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/guardtest"
)

// TestUpdateStaysInside moves weights that end, or start, where memory does.
func TestUpdateStaysInside(t *testing.T) {
	for _, end := range []bool{false, true} {
		for _, n := range []int{1, 7, 16, 33, 64} {
			w, m, v, g := state[float32](n)
			hw, hm, hv, hg := guardtest.Hold(t, w, end), guardtest.Hold(t, m, end), guardtest.Hold(t, v, end), guardtest.Hold(t, g, end)
			Update(rates[float32](), hw, hm, hv, hg)
			update(rates[float32](), w, m, v, g)
			if !slices.Equal(slices.Concat(w, m, v), slices.Concat(hw, hm, hv)) {
				t.Errorf("%d elements: other results at the edge of memory", n)
			}
		}
	}
}
