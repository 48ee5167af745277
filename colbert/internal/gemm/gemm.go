// Package gemm multiplies matrices with assembled micro-kernels, for the projection of token vectors: tall times
// narrow. It is there because gonum's default BLAS is several times slower than the processor; where it has no kernels
// for a machine, use a BLAS.
//
//	c[i,j] += Σ_l a[i,l]·b[l,j]
//
// Sums run over l ascending, in chains of depth 256 with fused multiply-add, whatever the instruction set, the sizes
// of a and the place of a row in it: rows of c can be shared out in any way and come out with the same bits.
package gemm

import (
	"fmt"
	"strings"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Matrix is a view of Rows × Cols elements: element (i,j) is Data[i*RowStride + j*ColStride].
type Matrix[T layout.Float] struct {
	Data                 []T
	Rows, Cols           int
	RowStride, ColStride int
}

// Dense is a row-major matrix over data.
func Dense[T layout.Float](data []T, rows, cols int) Matrix[T] {
	return Matrix[T]{data, rows, cols, cols, 1}
}

// T returns the transposed view.
func (m Matrix[T]) T() Matrix[T] {
	return Matrix[T]{m.Data, m.Cols, m.Rows, m.ColStride, m.RowStride}
}

// Slice returns the view of rows [lo, hi).
func (m Matrix[T]) Slice(lo, hi int) Matrix[T] {
	m.Data, m.Rows = m.Data[lo*m.RowStride:], hi-lo
	return m
}

// Depth is the length of a chain of sums, and the unit in which b can be packed by several goroutines.
const Depth = 256

// tileFunc adds a product to a tile of c, rows × cols elements. It equals
//
//	for i := range rows {
//		for j := range cols {
//			c[i*stride+j] += Σ_l a[i*rowStride+l*colStride] * b[l*cols+j] // l in [0, depth), ascending, one chain from 0
//		}
//	}
//
// with depth ≥ 1. Strides are in bytes.
type tileFunc[T layout.Float] func(depth int, a *T, rowStride, colStride int, b, c *T, stride int)

// Kernel is a pair of micro-kernels of one instruction set.
type Kernel[T layout.Float] struct {
	Name       string
	rows, cols int         // of the tile of many
	many, one  tileFunc[T] // for tiles of rows rows and of a single one, both of cols columns
}

// Kernels returns the kernels that this machine can run, fastest first; none on other architectures and with the tag
// purego.
func Kernels[T layout.Float]() []*Kernel[T] { return assembled[T]() }

// Select returns the kernels that package tile knows by the given name, or the fastest if name is empty; nil stands for
// tile.Generic and is the fastest where there is no assembly. A name that is unknown or cannot run here is an error.
func Select[T layout.Float](name string) (*Kernel[T], error) {
	kernels := Kernels[T]()
	for _, k := range kernels {
		if name == k.Name || name == "" {
			return k, nil
		}
	}
	if name == "" || name == tile.Generic {
		return nil, nil
	}
	return nil, fmt.Errorf("CPU kernels %q cannot run here, expected one of %s", name, strings.Join(tile.Available(), ", "))
}
