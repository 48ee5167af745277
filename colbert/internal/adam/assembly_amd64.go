//go:build !purego

package adam

import (
	"golang.org/x/sys/cpu"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// kernels returns the loops that this machine can run, fastest first.
func kernels[T layout.Float]() []kernel[T] {
	var out []kernel[T]
	add := func(loops ...any) {
		for _, k := range loops {
			if k, ok := k.(kernel[T]); ok {
				out = append(out, k)
			}
		}
	}
	if cpu.X86.HasAVX512F {
		add(kernel[float32]{"avx512", 16, updateAVX512F32}, kernel[float64]{"avx512", 8, updateAVX512F64})
	}
	if cpu.X86.HasAVX2 {
		add(kernel[float32]{"avx2", 8, updateAVX2F32}, kernel[float64]{"avx2", 4, updateAVX2F64})
	}
	return out
}
