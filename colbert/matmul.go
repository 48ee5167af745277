package colbert

import (
	"fmt"
	"os"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	"gorgonia.org/gorgonia"

	"github.com/flash-maxsim/gorgonia-maxsim/colbert/internal/gemm"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// addProduct adds a·b to c on all cores. The BLAS that the user chose with gorgonia.Use does it; in place of gonum's,
// which Gorgonia has by default, the kernels of package gemm do, where there are any.
func addProduct[T layout.Float](c, a, b gemm.Matrix[T]) error {
	if _, standard := gorgonia.WhichBLAS().(gonum.Implementation); standard {
		k, err := gemm.Select[T](os.Getenv(cpu.PathVariable))
		if err != nil {
			return fmt.Errorf("%w: Linear: %w (environment variable %s)", ErrValue, err, cpu.PathVariable)
		}
		if k != nil {
			addProductBy(k, c, a, b)
			return nil
		}
	}
	ta, lda := stored(a)
	tb, ldb := stored(b)
	switch x := any(c.Data).(type) {
	case []float32:
		gorgonia.WhichBLAS().Sgemm(ta, tb, c.Rows, c.Cols, a.Cols, 1, any(a.Data).([]float32), lda,
			any(b.Data).([]float32), ldb, 1, x, c.RowStride)
	case []float64:
		gorgonia.WhichBLAS().Dgemm(ta, tb, c.Rows, c.Cols, a.Cols, 1, any(a.Data).([]float64), lda,
			any(b.Data).([]float64), ldb, 1, x, c.RowStride)
	}
	return nil
}

// rowsAtOnce is how many rows of a product a goroutine takes: few enough to share out, a multiple of every tile's rows.
const rowsAtOnce = 48

func addProductBy[T layout.Float](k *gemm.Kernel[T], c, a, b gemm.Matrix[T]) {
	p := k.NewPacked(b.Rows, b.Cols)
	parallel(b.Rows, gemm.Depth, func(lo, hi int) { p.Fill(b, lo, hi) })
	parallel(c.Rows, rowsAtOnce, func(lo, hi int) { p.AddTo(c.Slice(lo, hi), a.Slice(lo, hi)) })
}

// stored returns how BLAS sees m: as it lies in memory, or transposed, and the stride between its lines.
func stored[T layout.Float](m gemm.Matrix[T]) (blas.Transpose, int) {
	if m.ColStride == 1 && m.RowStride >= m.Cols {
		return blas.NoTrans, m.RowStride
	}
	return blas.Trans, m.ColStride
}
