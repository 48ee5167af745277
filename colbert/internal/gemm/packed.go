package gemm

import (
	"unsafe"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Packed is a matrix b laid out for a kernel: for each chain of Depth rows, panels as wide as a tile, each with its
// rows one after the other, the last panel filled up with zeros.
type Packed[T layout.Float] struct {
	kernel     *Kernel[T]
	rows, cols int
	panels     int
	data       []T
}

// NewPacked returns room for b, to be filled by Fill.
func (k *Kernel[T]) NewPacked(rows, cols int) *Packed[T] {
	panels := (cols + k.cols - 1) / k.cols
	return &Packed[T]{k, rows, cols, panels, make([]T, rows*panels*k.cols)}
}

// Fill copies rows [lo, hi) of b. lo is a multiple of Depth, and so is hi unless it is the last row. Different ranges
// may be filled at once.
func (p *Packed[T]) Fill(b Matrix[T], lo, hi int) {
	width := p.kernel.cols
	for first := lo; first < hi; first += Depth {
		depth := min(Depth, p.rows-first)
		for panel := range p.panels {
			dst := p.panel(first, depth, panel)
			j0 := panel * width
			n := min(width, p.cols-j0)
			for l := range depth {
				row := dst[l*width : l*width+n]
				at := (first+l)*b.RowStride + j0*b.ColStride
				if b.ColStride == 1 {
					copy(row, b.Data[at:])
					continue
				}
				for j := range row {
					row[j] = b.Data[at+j*b.ColStride]
				}
			}
		}
	}
}

// panel returns the panel of the chain that starts at row first.
func (p *Packed[T]) panel(first, depth, panel int) []T {
	width := p.kernel.cols
	at := first*p.panels*width + panel*depth*width
	return p.data[at : at+depth*width]
}

// AddTo adds a·b to c, of which the columns must lie side by side. Different rows of c may be computed at once.
func (p *Packed[T]) AddTo(c, a Matrix[T]) {
	k := p.kernel
	if a.Rows != c.Rows || a.Cols != p.rows || c.Cols != p.cols || c.ColStride != 1 {
		panic("gemm: shapes do not fit")
	}
	size := int(unsafe.Sizeof(c.Data[0]))
	var edge [maxTile]T // a tile of c that is narrower than the kernel's
	for first := 0; first < p.rows; first += Depth {
		depth := min(Depth, p.rows-first)
		for panel := range p.panels {
			b := unsafe.SliceData(p.panel(first, depth, panel))
			j0 := panel * k.cols
			n := min(k.cols, p.cols-j0)
			for i := 0; i < c.Rows; {
				rows, tile := k.rows, k.many
				if c.Rows-i < rows {
					rows, tile = 1, k.one
				}
				x := a.Data[i*a.RowStride+first*a.ColStride:]
				_ = x[(rows-1)*a.RowStride+(depth-1)*a.ColStride]
				y := c.Data[i*c.RowStride+j0:]
				if n == k.cols {
					_ = y[(rows-1)*c.RowStride+n-1]
					tile(depth, unsafe.SliceData(x), a.RowStride*size, a.ColStride*size, b, unsafe.SliceData(y), c.RowStride*size)
				} else {
					clear(edge[:rows*k.cols])
					tile(depth, unsafe.SliceData(x), a.RowStride*size, a.ColStride*size, b, &edge[0], k.cols*size)
					for r := range rows {
						for j, v := range edge[r*k.cols : r*k.cols+n] {
							y[r*c.RowStride+j] += v
						}
					}
				}
				i += rows
			}
		}
	}
}
