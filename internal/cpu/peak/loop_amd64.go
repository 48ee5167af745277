//go:build !purego

package peak

import "github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"

// loop counts two operations for each of 12 multiply-adds in every lane.
func loop(kernels string, double bool) (func(n int), int) {
	switch {
	case kernels == tile.AVX512 && double:
		return fmaAVX512F64, 12 * 8 * 2
	case kernels == tile.AVX512:
		return fmaAVX512F32, 12 * 16 * 2
	case kernels == tile.AVX2 && double:
		return fmaAVX2F64, 12 * 4 * 2
	case kernels == tile.AVX2:
		return fmaAVX2F32, 12 * 8 * 2
	}
	return nil, 0
}
