//go:build linux

package gemm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/guardtest"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

func TestProductStaysInside(t *testing.T) {
	t.Run("float32", testStaysInside[float32])
	t.Run("float64", testStaysInside[float64])
}

// testStaysInside multiplies matrices that end, or start, where memory does.
func testStaysInside[T layout.Float](t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, k := range Kernels[T]() {
		for _, s := range [][3]int{{1, 1, 1}, {8, 32, 5}, {13, 40, 260}, {7, 31, 3}} {
			m, n, depth := s[0], s[1], s[2]
			for _, transposed := range []bool{false, true} {
				for _, end := range []bool{false, true} {
					a := Dense(guardtest.Hold(t, integers[T](rng, m*depth), end), m, depth)
					if transposed {
						a = Dense(a.Data, depth, m).T()
					}
					b := Dense(guardtest.Hold(t, integers[T](rng, depth*n), end), depth, n)
					c := Dense(guardtest.Hold(t, make([]T, m*n), end), m, n)
					p := k.NewPacked(depth, n)
					p.Fill(b, 0, depth)
					p.data = guardtest.Hold(t, p.data, end)
					p.AddTo(c, a)
					want := Dense(make([]T, m*n), m, n)
					reference(want, a, b)
					if !slices.Equal(c.Data, want.Data) {
						t.Errorf("%s: %d × %d × %d: wrong product", k.Name, m, n, depth)
					}
				}
			}
		}
	}
}
