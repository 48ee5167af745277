package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// reference adds a·b to c, one product at a time.
func reference[T layout.Float](c, a, b Matrix[T]) {
	for i := range c.Rows {
		for j := range c.Cols {
			s := 0.0
			for l := range a.Cols {
				s += float64(a.Data[i*a.RowStride+l*a.ColStride]) * float64(b.Data[l*b.RowStride+j*b.ColStride])
			}
			c.Data[i*c.RowStride+j] += T(s)
		}
	}
}

func product[T layout.Float](k *Kernel[T], c, a, b Matrix[T]) {
	p := k.NewPacked(b.Rows, b.Cols)
	p.Fill(b, 0, b.Rows)
	p.AddTo(c, a)
}

// integers returns small integers, of which every sum of products is exact in any order.
func integers[T layout.Float](rng *rand.Rand, n int) []T {
	x := make([]T, n)
	for i := range x {
		x[i] = T(rng.IntN(17) - 8)
	}
	return x
}

func TestProduct(t *testing.T) {
	t.Run("float32", testProduct[float32])
	t.Run("float64", testProduct[float64])
}

// testProduct compares bit for bit with the plain loops, for sizes around those of the tiles and every transposition.
func testProduct[T layout.Float](t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, k := range Kernels[T]() {
		t.Run(k.Name, func(t *testing.T) {
			for _, s := range [][3]int{{1, 1, 1}, {1, 32, 1}, {5, 7, 3}, {6, 16, 10}, {8, 32, 256}, {9, 33, 257}, {13, 40, 300}, {7, 31, 512}, {64, 128, 100}, {2, 3, 600}} {
				m, n, depth := s[0], s[1], s[2]
				for _, transposed := range []int{0, 1, 2, 3} {
					a, b := Dense(integers[T](rng, m*depth), m, depth), Dense(integers[T](rng, depth*n), depth, n)
					if transposed&1 != 0 {
						a = Dense(a.Data, depth, m).T()
					}
					if transposed&2 != 0 {
						b = Dense(b.Data, n, depth).T()
					}
					got := Dense(integers[T](rng, m*n), m, n)
					want := Dense(slices.Clone(got.Data), m, n)
					product(k, got, a, b)
					reference(want, a, b)
					if !slices.Equal(got.Data, want.Data) {
						t.Errorf("%d × %d × %d, transposed %02b: wrong product", m, n, depth, transposed)
					}
				}
			}
		})
	}
}

func TestSameBits(t *testing.T) {
	t.Run("float32", testSameBits[float32])
	t.Run("float64", testSameBits[float64])
}

// testSameBits: a row of c does not depend on the kernels, on the other rows, nor on its place among them.
func testSameBits[T layout.Float](t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	const m, n, depth = 23, 45, 400
	x := make([]T, m*depth+depth*n)
	for i := range x {
		x[i] = T(rng.NormFloat64())
	}
	a, b := Dense(x[:m*depth], m, depth), Dense(x[m*depth:], depth, n)
	var first []T
	for _, k := range Kernels[T]() {
		whole := Dense(make([]T, m*n), m, n)
		product(k, whole, a, b)
		if first == nil {
			first = whole.Data
		}
		if !slices.Equal(first, whole.Data) {
			t.Errorf("%s: other bits than %s", k.Name, Kernels[T]()[0].Name)
		}
		for lo := 0; lo < m; lo += 5 {
			hi := min(lo+5, m)
			part := Dense(make([]T, (hi-lo)*n), hi-lo, n)
			product(k, part, a.Slice(lo, hi), b)
			if !slices.Equal(part.Data, whole.Data[lo*n:hi*n]) {
				t.Errorf("%s: rows %d to %d have other bits alone", k.Name, lo, hi)
			}
		}
	}
}

// TestAccuracy: the error is at most that of depth roundings of the sum of the products' sizes.
func TestAccuracy(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	const m, n, depth = 9, 20, 700
	x := make([]float32, m*depth+depth*n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	a, b := Dense(x[:m*depth], m, depth), Dense(x[m*depth:], depth, n)
	for _, k := range Kernels[float32]() {
		c := Dense(make([]float32, m*n), m, n)
		product(k, c, a, b)
		for i := range m {
			for j := range n {
				sum, sizes := 0.0, 0.0
				for l := range depth {
					p := float64(a.Data[i*depth+l]) * float64(b.Data[l*n+j])
					sum += p
					sizes += math.Abs(p)
				}
				if diff := math.Abs(float64(c.Data[i*n+j]) - sum); diff > (Depth+3)*0x1p-24*sizes {
					t.Errorf("%s: element (%d, %d) is off by %v", k.Name, i, j, diff)
				}
			}
		}
	}
}

// TestShapes: a product that does not fit is a bug of the caller.
func TestShapes(t *testing.T) {
	for _, k := range Kernels[float32]() {
		p := k.NewPacked(3, 4)
		for _, c := range []struct{ c, a Matrix[float32] }{
			{Dense(make([]float32, 8), 2, 4), Dense(make([]float32, 9), 3, 3)},
			{Dense(make([]float32, 8), 2, 4), Dense(make([]float32, 8), 2, 4)},
			{Dense(make([]float32, 10), 2, 5), Dense(make([]float32, 6), 2, 3)},
			{Dense(make([]float32, 8), 4, 2).T(), Dense(make([]float32, 6), 2, 3)},
			{Dense(make([]float32, 8), 2, 4), Dense(make([]float32, 5), 2, 3)},
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%d × %d = %d × %d · 3 × 4 went through", c.c.Rows, c.c.Cols, c.a.Rows, c.a.Cols)
					}
				}()
				p.AddTo(c.c, c.a)
			}()
		}
	}
}

func BenchmarkProduct(b *testing.B) {
	b.Run("float32", benchProduct[float32])
	b.Run("float64", benchProduct[float64])
}

func benchProduct[T layout.Float](b *testing.B) {
	const m, n, depth = 4096, 128, 256
	x := make([]T, m*depth+depth*n+m*n)
	for i := range x {
		x[i] = T(i % 13)
	}
	for _, k := range Kernels[T]() {
		for _, transposed := range []bool{false, true} {
			b.Run(fmt.Sprintf("kernel=%s/transposed=%v", k.Name, transposed), func(b *testing.B) {
				a, w, c := Dense(x, m, depth), Dense(x[m*depth:], depth, n), Dense(x[m*depth+depth*n:], m, n)
				if transposed { // aᵀ·c
					a, w, c = a.T(), c, w
				}
				b.SetBytes(int64(len(x)) * int64(unsafe.Sizeof(x[0])))
				for b.Loop() {
					product(k, c, a, w)
				}
				b.ReportMetric(2*m*n*depth*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
