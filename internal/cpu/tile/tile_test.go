package tile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// muladd is how a path adds a product: fused, or rounded twice.
type muladd[T layout.Float] func(x, y, sum T) T

func muladdOf[T layout.Float](path string) muladd[T] {
	if path == Generic {
		return func(x, y, sum T) T { return sum + T(x*y) }
	}
	return fused[T]
}

// fused returns x*y+sum rounded once.
func fused[T layout.Float](x, y, sum T) T {
	if r, ok := any(fused32).(func(x, y, sum T) T); ok {
		return r(x, y, sum)
	}
	return T(math.FMA(float64(x), float64(y), float64(sum)))
}

// fused32 rounds the exact product plus sum to odd in float64, which the second rounding then cannot mislead.
func fused32(x, y, sum float32) float32 {
	p, s := float64(x)*float64(y), float64(sum) // the product is exact
	r := p + s
	if math.IsNaN(r) || math.IsInf(r, 0) {
		return float32(r)
	}
	v := r - p
	if e := (p - (r - v)) + (s - v); e != 0 && math.Float64bits(r)&1 == 0 { // what r misses
		if (e > 0) == (r > 0) {
			return float32(math.Float64frombits(math.Float64bits(r) + 1))
		}
		return float32(math.Float64frombits(math.Float64bits(r) - 1))
	}
	return float32(r)
}

// plainMax is the loop of MaxFunc.
func plainMax[T layout.Float](add muladd[T], qp, doc []T, n, dim int, mx []T, ix []int32, base int) {
	lanes := len(mx)
	for u := range n {
		for l := range lanes {
			var s T
			for k := range dim {
				s = add(qp[k*lanes+l], doc[u*dim+k], s)
			}
			if s > mx[l] {
				mx[l], ix[l] = s, int32(base+u)
			}
			if s != s {
				mx[l] = s
			}
		}
	}
}

// plainGather is the loop of GatherFunc.
func plainGather[T layout.Float](add muladd[T], dst, base []T, rows []int32, w []T) {
	for k := range dst {
		dst[k] = 0
		for e, row := range rows {
			dst[k] = add(w[e], base[int(row)*len(dst)+k], dst[k])
		}
	}
}

// forEachPath runs test for the kernels of every path in both types.
func forEachPath(t *testing.T, f32 func(*testing.T, *Kernels[float32]), f64 func(*testing.T, *Kernels[float64])) {
	for _, path := range Available() {
		t.Run(path+"/float32", func(t *testing.T) { f32(t, mustSelect[float32](t, path)) })
		t.Run(path+"/float64", func(t *testing.T) { f64(t, mustSelect[float64](t, path)) })
	}
}

func mustSelect[T layout.Float](t *testing.T, path string) *Kernels[T] {
	t.Helper()
	k, err := Select[T](path)
	if err != nil {
		t.Fatal(err)
	}
	if k.Name != path {
		t.Fatalf("kernels %q selected, expected %q", k.Name, path)
	}
	return k
}

// shapes calls f for every panel width with every number of rows of a tile and some more, and dims around the unroll.
func shapes[T layout.Float](k *Kernels[T], f func(lanes, n, dim int)) {
	for _, lanes := range k.Widths {
		for n := range 31 {
			for _, dim := range []int{0, 1, 2, 7, 8, 9, 16, 17, 31, 40} {
				f(lanes, n, dim)
			}
		}
		f(lanes, 100, 128)
		f(lanes, 37, 333)
	}
}

func TestMax(t *testing.T) { forEachPath(t, testMax[float32], testMax[float64]) }

// testMax compares with the loop bit for bit on random numbers, among them exact ties, infinities and NaN.
func testMax[T layout.Float](t *testing.T, k *Kernels[T]) {
	r := rand.New(rand.NewPCG(5, 6))
	ties, nans := 0, 0
	shapes(k, func(lanes, n, dim int) {
		qp, doc := normal[T](r, lanes*dim), normal[T](r, n*dim)
		for range n / 3 {
			copyRow(doc, dim, r.IntN(n), r.IntN(n))
			ties++
		}
		special := []T{T(math.NaN()), T(math.Inf(1)), T(math.Inf(-1)), 0}
		if len(doc) > 0 && r.IntN(3) == 0 {
			doc[r.IntN(len(doc))] = special[r.IntN(len(special))]
			qp[r.IntN(len(qp))] = special[r.IntN(len(special))]
		}
		mx, ix := make([]T, lanes), make([]int32, lanes)
		for l := range mx {
			mx[l], ix[l] = T(math.Inf(-1)), 7
			if r.IntN(4) == 0 {
				mx[l] = T(r.NormFloat64())
			}
			if r.IntN(40) == 0 {
				mx[l] = T(math.NaN())
			}
		}
		wantMx, wantIx := append([]T(nil), mx...), append([]int32(nil), ix...)
		plainMax(muladdOf[T](k.Name), qp, doc, n, dim, wantMx, wantIx, 1000)
		k.Max(qp, doc, n, dim, mx, ix, 1000)
		for l := range mx {
			if mx[l] != mx[l] && wantMx[l] != wantMx[l] {
				nans++
				if ix[l] != 7 && (ix[l] < 1000 || ix[l] >= int32(1000+n)) {
					t.Fatalf("%d lanes, %d rows, dim %d: lane %d: index %d beside a NaN is out of bounds", lanes, n, dim, l, ix[l])
				}
				continue
			}
			if bits(mx[l]) != bits(wantMx[l]) || ix[l] != wantIx[l] {
				t.Fatalf("%d lanes, %d rows, dim %d: lane %d: maximum %v at %d, expected %v at %d",
					lanes, n, dim, l, mx[l], ix[l], wantMx[l], wantIx[l])
			}
		}
	})
	if ties == 0 || nans == 0 {
		t.Errorf("%d ties and %d NaN compared, expected some of each", ties, nans)
	}
}

func TestGather(t *testing.T) { forEachPath(t, testGather[float32], testGather[float64]) }

func testGather[T layout.Float](t *testing.T, k *Kernels[T]) {
	r := rand.New(rand.NewPCG(7, 8))
	for dim := range 300 {
		for _, n := range []int{0, 1, 2, 5, 9} {
			checkGather(t, k, r, dim, n)
		}
	}
}

// checkGather compares one list of n random rows with the plain loop.
func checkGather[T layout.Float](t *testing.T, k *Kernels[T], r *rand.Rand, dim, n int) {
	t.Helper()
	base, w, rows := normal[T](r, 20*dim), normal[T](r, n), make([]int32, n)
	for e := range rows {
		rows[e] = int32(r.IntN(20))
	}
	got, want := normal[T](r, dim), make([]T, dim)
	k.Gather(got, base, rows, w)
	plainGather(muladdOf[T](k.Name), want, base, rows, w)
	for x := range want {
		if bits(got[x]) != bits(want[x]) {
			t.Fatalf("dim %d, %d rows: element %d is %v, expected %v", dim, n, x, got[x], want[x])
		}
	}
}

// The list of a document token that a great many query tokens chose is gathered in parts, which change no bit.
func TestGatherLongList(t *testing.T) {
	forEachPath(t, testGatherLongList[float32], testGatherLongList[float64])
}

func testGatherLongList[T layout.Float](t *testing.T, k *Kernels[T]) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, dim := range []int{1, 7, 128, 300, 4096} {
		for _, n := range []int{1<<20/dim - 1, 1 << 20 / dim, 1<<20/dim + 1, 5 << 19 / dim} {
			checkGather(t, k, r, dim, n)
		}
	}
}

func TestPack(t *testing.T) { forEachPath(t, testPack[float32], testPack[float64]) }

func testPack[T layout.Float](t *testing.T, k *Kernels[T]) {
	r := rand.New(rand.NewPCG(15, 16))
	for dim := range 40 {
		for n := range 33 {
			lanes := n + r.IntN(3)
			q, rows := normal[T](r, 20*dim), make([]int32, n)
			for l := range rows {
				rows[l] = int32(r.IntN(20))
			}
			panel := normal[T](r, lanes*dim)
			want := append([]T(nil), panel...)
			for l, row := range rows {
				for k := range dim {
					want[k*lanes+l] = q[int(row)*dim+k]
				}
			}
			k.Pack(panel, lanes, q, rows, dim)
			if !slices.Equal(panel, want) {
				t.Fatalf("dim %d, %d rows, %d lanes: panel %v, expected %v", dim, n, lanes, panel, want)
			}
		}
	}
}

// TestFused32 compares the tests' own fused multiply-add with cases that rounding twice gets wrong.
func TestFused32(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 100000 {
		x, y := float32(1+r.Float64()), float32(1+r.Float64())
		sum := float32(math.Ldexp(r.NormFloat64(), r.IntN(60)-30))
		got := fused32(x, y, sum)
		// x*y is exact in float64, so that the candidates can be compared by their exact distance.
		for _, other := range []float32{math.Nextafter32(got, 99), math.Nextafter32(got, -99)} {
			if distance(x, y, sum, other) < distance(x, y, sum, got) {
				t.Fatalf("%v*%v+%v = %v, but %v is nearer", x, y, sum, got, other)
			}
		}
	}
}

// distance returns |x*y + sum - r|, exact wherever r is near.
func distance(x, y, sum, r float32) float64 {
	p := float64(x) * float64(y)
	d := float64(sum) - float64(r)
	if math.Abs(d) > math.Abs(p)*2 || math.Abs(p) > math.Abs(d)*2 {
		return math.Abs(p + d)
	}
	return math.Abs(math.FMA(float64(x), float64(y), d))
}

// TestPortableRoundsProducts would fail where a compiler fuses the portable kernels' products and sums.
func TestPortableRoundsProducts(t *testing.T) {
	const x = 1 + 1.0/(1<<12)
	k := mustSelect[float32](t, Generic)
	qp, doc, mx := make([]float32, 2*genericLanes), []float32{1, x}, make([]float32, genericLanes)
	for l := range genericLanes {
		qp[l], qp[genericLanes+l], mx[l] = -(1 + 1.0/(1<<11)), x, float32(math.Inf(-1))
	}
	k.Max(qp, doc, 1, 2, mx, make([]int32, genericLanes), 0)
	if mx[0] != 0 { // fused: 2⁻²⁴
		t.Errorf("maximum %v, expected 0: the product is rounded", mx[0])
	}
}

func TestWidth(t *testing.T) {
	k := &Kernels[float32]{Widths: []int{32, 24, 16, 8}}
	for _, c := range []struct{ left, want int }{{1, 8}, {8, 8}, {9, 16}, {17, 24}, {24, 24}, {25, 32}, {32, 32}, {33, 32}, {500, 32}} {
		if got := k.Width(c.left); got != c.want {
			t.Errorf("width for %d query tokens is %d, expected %d", c.left, got, c.want)
		}
	}
}

func normal[T layout.Float](r *rand.Rand, n int) []T {
	s := make([]T, n)
	for at := range s {
		s[at] = T(r.NormFloat64())
	}
	return s
}

func copyRow[T any](rows []T, dim, to, from int) {
	copy(rows[to*dim:(to+1)*dim], rows[from*dim:(from+1)*dim])
}

func bits[T layout.Float](x T) string { return fmt.Sprintf("%x", x) }
