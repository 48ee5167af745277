//go:build linux

package tile

import (
	"math/rand/v2"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/guardtest"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

func TestMaxStaysInside(t *testing.T) {
	forEachPath(t, testMaxStaysInside[float32], testMaxStaysInside[float64])
}

func testMaxStaysInside[T layout.Float](t *testing.T, k *Kernels[T]) {
	r := rand.New(rand.NewPCG(11, 12))
	const most = 37 * 333
	gq, gd, gm, gi := guardtest.New[T](t, most), guardtest.New[T](t, most), guardtest.New[T](t, 64), guardtest.New[int32](t, 64)
	shapes(k, func(lanes, n, dim int) {
		qp, doc := normal[T](r, lanes*dim), normal[T](r, n*dim)
		for _, end := range []bool{false, true} {
			mx, ix := gm.Hold(make([]T, lanes), end), gi.Hold(make([]int32, lanes), end)
			k.Max(gq.Hold(qp, end), gd.Hold(doc, end), n, dim, mx, ix, 0)
		}
	})
}

func TestGatherStaysInside(t *testing.T) {
	forEachPath(t, testGatherStaysInside[float32], testGatherStaysInside[float64])
}

func testGatherStaysInside[T layout.Float](t *testing.T, k *Kernels[T]) {
	r := rand.New(rand.NewPCG(13, 14))
	const rows, longest = 6, 300
	gb, gd, gw, gr := guardtest.New[T](t, rows*longest), guardtest.New[T](t, longest), guardtest.New[T](t, rows), guardtest.New[int32](t, rows)
	for dim := range longest {
		base := normal[T](r, rows*dim)
		for _, list := range [][]int32{nil, {rows - 1}, {0}, {rows - 1, 0, 1, 2, 3, rows - 1}} {
			for _, end := range []bool{false, true} {
				w := gw.Hold(normal[T](r, len(list)), end)
				k.Gather(gd.Hold(make([]T, dim), end), gb.Hold(base, end), gr.Hold(list, end), w)
			}
		}
	}
}

func TestPackStaysInside(t *testing.T) {
	forEachPath(t, testPackStaysInside[float32], testPackStaysInside[float64])
}

func testPackStaysInside[T layout.Float](t *testing.T, k *Kernels[T]) {
	r := rand.New(rand.NewPCG(17, 18))
	const most, longest = 18, 40
	gp, gq, gr := guardtest.New[T](t, most*longest), guardtest.New[T](t, most*longest), guardtest.New[int32](t, most)
	for dim := range longest {
		for n := range most {
			rows := make([]int32, n)
			for l := range rows {
				rows[l] = int32(n - 1 - l)
			}
			for _, end := range []bool{false, true} {
				k.Pack(gp.Hold(make([]T, n*dim), end), n, gq.Hold(normal[T](r, n*dim), end), gr.Hold(rows, end), dim)
			}
		}
	}
}
