//go:build !purego

package gemm

import (
	"golang.org/x/sys/cpu"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// maxTile is the number of elements of the largest tile.
const maxTile = 8 * 32

var (
	avx512F32 = Kernel[float32]{tile.AVX512, 8, 32, tileAVX512F32x8, tileAVX512F32x1}
	avx512F64 = Kernel[float64]{tile.AVX512, 8, 16, tileAVX512F64x8, tileAVX512F64x1}
	avx2F32   = Kernel[float32]{tile.AVX2, 6, 16, tileAVX2F32x6, tileAVX2F32x1}
	avx2F64   = Kernel[float64]{tile.AVX2, 6, 8, tileAVX2F64x6, tileAVX2F64x1}
)

func assembled[T layout.Float]() []*Kernel[T] {
	var out []*Kernel[T]
	add := func(kernels ...any) {
		for _, k := range kernels {
			if k, ok := k.(*Kernel[T]); ok {
				out = append(out, k)
			}
		}
	}
	if cpu.X86.HasAVX512F {
		add(&avx512F32, &avx512F64)
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		add(&avx2F32, &avx2F64)
	}
	return out
}
