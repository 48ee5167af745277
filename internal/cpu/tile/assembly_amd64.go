//go:build !purego

package tile

import (
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// lacking says why kernels that exist are not available.
const lacking = "this processor or operating system lacks the instructions"

// assembly returns the names of the assembled kernels that this machine can run, fastest first.
func assembly() []string {
	var names []string
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL && cpu.X86.HasBMI2 {
		names = append(names, AVX512)
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		names = append(names, AVX2)
	}
	return names
}

// assembled returns the assembled kernels of the given name.
func assembled[T layout.Float](name string) *Kernels[T] {
	for _, kernels := range []any{&avx512F32, &avx512F64, &avx2F32, &avx2F64} {
		if k, ok := kernels.(*Kernels[T]); ok && k.Name == name {
			return k
		}
	}
	panic("tile: no assembled kernels " + name)
}

var (
	avx512F32 = Kernels[float32]{
		Name: AVX512, Widths: []int{32, 24, 16, 8},
		Max: maxOf([]int{32, 24, 16, 8},
			[]maxAssembly[float32]{maxAVX512F32x32, maxAVX512F32x24, maxAVX512F32x16, maxAVX512F32x8}),
		Gather: gatherOf(gatherAVX512F32),
		Pack:   packOf(packAVX2F32x8, 8),
	}
	avx512F64 = Kernels[float64]{
		Name: AVX512, Widths: []int{16, 12, 8, 4},
		Max: maxOf([]int{16, 12, 8, 4},
			[]maxAssembly[float64]{maxAVX512F64x16, maxAVX512F64x12, maxAVX512F64x8, maxAVX512F64x4}),
		Gather: gatherOf(gatherAVX512F64),
		Pack:   packOf(packAVX2F64x4, 4),
	}
	avx2F32 = Kernels[float32]{
		Name: AVX2, Widths: []int{16, 8},
		Max:    maxOf([]int{16, 8}, []maxAssembly[float32]{maxAVX2F32x16, maxAVX2F32x8}),
		Gather: gatherOf(gatherAVX2F32),
		Pack:   packOf(packAVX2F32x8, 8),
	}
	avx2F64 = Kernels[float64]{
		Name: AVX2, Widths: []int{8, 4},
		Max:    maxOf([]int{8, 4}, []maxAssembly[float64]{maxAVX2F64x8, maxAVX2F64x4}),
		Gather: gatherOf(gatherAVX2F64),
		Pack:   packOf(packAVX2F64x4, 4),
	}
)

// maxAssembly is MaxFunc for one panel width, without the lengths.
type maxAssembly[T layout.Float] func(qp, doc *T, n, dim int, mx *T, ix *int32, base int)

// maxOf returns the MaxFunc that calls kernels[w] for panels of widths[w] lanes. It panics, as a loop over slices would,
// where a slice is too short.
func maxOf[T layout.Float](widths []int, kernels []maxAssembly[T]) MaxFunc[T] {
	return func(qp, doc []T, n, dim int, mx []T, ix []int32, base int) {
		w := 0
		for widths[w] != len(mx) {
			w++
		}
		qp, doc, ix = qp[:len(mx)*dim], doc[:n*dim], ix[:len(mx)]
		kernels[w](unsafe.SliceData(qp), unsafe.SliceData(doc), n, dim, unsafe.SliceData(mx), unsafe.SliceData(ix), base)
	}
}

// gatherElements bounds the products of one call of an assembled Gather: assembly cannot be preempted, and a garbage
// collection waits for it. A document token that many query tokens chose has a list longer than that.
const gatherElements = 1 << 20

// gatherOf returns the GatherFunc that calls kernel, for one part of the list after the other.
func gatherOf[T layout.Float](kernel func(dst, base *T, dim int, rows *int32, w *T, n int, onto bool)) GatherFunc[T] {
	return func(dst, base []T, rows []int32, w []T) {
		w = w[:len(rows)]
		most := len(rows)
		if most*len(dst) > gatherElements { // hardly ever, so that a division does not weigh on every short list
			most = max(gatherElements/len(dst), 1)
		}
		for onto := false; ; onto = true {
			n := min(len(rows), most)
			kernel(unsafe.SliceData(dst), unsafe.SliceData(base), len(dst), unsafe.SliceData(rows), unsafe.SliceData(w), n, onto)
			if rows, w = rows[n:], w[n:]; len(rows) == 0 {
				return
			}
		}
	}
}

// packOf returns the PackFunc that calls kernel for every block rows, and the loop for what the kernel leaves: the last
// rows and the last coordinates, fewer than block each.
func packOf[T layout.Float](kernel func(panel *T, lanes int, q *T, rows *int32, dim int), block int) PackFunc[T] {
	return func(panel []T, lanes int, q []T, rows []int32, dim int) {
		l := 0
		for ; l+block <= len(rows) && dim >= block; l += block {
			for _, row := range rows[l : l+block] {
				_ = q[int(row)*dim:][:dim]
			}
			_ = panel[(dim-1)*lanes+l:][:block]
			kernel(&panel[l], lanes, &q[0], &rows[l], dim)
			for r, row := range rows[l : l+block] {
				for k := dim - dim%block; k < dim; k++ {
					panel[k*lanes+l+r] = q[int(row)*dim+k]
				}
			}
		}
		genericPack(panel[min(l, len(panel)):], lanes, q, rows[l:], dim)
	}
}
