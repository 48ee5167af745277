package maxsim

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/csr"
)

// CSR is the inverse grid of a run: the argmax says which document token each query token chose, its inverse says which
// query tokens chose a document token. The gradient of document row r is
//
//	dd[r,:] = Σ_{c ∈ ColIndices[RowOffsets[r]:RowOffsets[r+1]]} ds[i(c), k] · q[c,:]
//
// with k the column of the row's document, so that every row has one owner that adds in ascending order: no atomics on
// floats, the same bits every run. The backward pass builds the inverse document by document; [InverseGrid] shows all
// of it.
//
// Source: the inverse-grid CSR is that of flash-maxsim 0.3.0 (PyTorch/Triton, its `invgrid` backward); a stable counting sort replaces its argsort.
type CSR struct {
	// RowOffsets [rows+1] has one row for each token row of d: j·td+u, or cu_seqlens[j]+u if packed.
	RowOffsets []int
	// ColIndices holds token rows of q (i·tq+t, or cu_seqlens[i]+t if packed), ascending inside a row.
	ColIndices []int32
}

// Row returns the query token rows that chose document token row r.
func (c *CSR) Row(r int) []int32 { return c.ColIndices[c.RowOffsets[r]:c.RowOffsets[r+1]] }

// InverseGrid returns the inverse of the argmax of the last run of a scores node, for example to draw which parts of a
// page a query looked at. The graph must have stored the argmax, as [LastArgmax] asks.
func InverseGrid(scores *gorgonia.Node) (*CSR, error) {
	t, err := lastRun(scores)
	if err != nil {
		return nil, err
	}
	m, err := t.inverse()
	if err != nil {
		return nil, err
	}
	return &CSR{RowOffsets: m.Offsets, ColIndices: m.Columns}, nil
}

// inverse returns the inverse grid of a tape that was recorded.
func (t *tape) inverse() (*csr.Matrix, error) {
	argmax, err := t.recorded.Argmax()
	if err != nil {
		return nil, deviceError(err)
	}
	m, err := csr.Invert(&t.batch, argmax)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrInternal, err)
	}
	return m, nil
}
