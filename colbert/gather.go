package colbert

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Gather reads the rows of a table that ids name.
//
//	out[i,t,:] = table[ids[i,t],:]
//
//	table [V,h]            float32 or float64
//	ids   [B,T] or [N]     int32, 0 ≤ id < V
//	out   [B,T,h] or [N,h] dtype of table
//
// The gradient of the table is a dense [V,h] tensor: each row is the sum of the upstream rows that chose it, in the
// order of ids, and 0 where no id did. A table of which a batch touches few rows trains far cheaper as an [Embedding].
// An id out of range is an error that names it, its position and V.
func Gather(table, ids *gorgonia.Node) (*gorgonia.Node, error) { return gatherNode(table, ids, false) }

func gatherNode(table, ids *gorgonia.Node, frozen bool) (*gorgonia.Node, error) {
	if err := floatNode("Gather", "table", table); err != nil {
		return nil, err
	}
	if err := checkNode("Gather", "ids", ids); err != nil {
		return nil, err
	}
	if n := ids.Dims(); n != 1 && n != 2 {
		return nil, fmt.Errorf("%w: Gather: ids has shape %v, expected [B,T] or [N]", ErrShape, ids.Shape())
	}
	if table.Dtype() == tensor.Float32 {
		return apply(gather[float32]{ids.Dims(), frozen}, table, ids)
	}
	return apply(gather[float64]{ids.Dims(), frozen}, table, ids)
}

type gather[T layout.Float] struct {
	idDims int
	frozen bool // the table has no gradient here
}

func (gather[T]) name() string { return "Gather" }
func (k gather[T]) rank() int  { return k.idDims + 1 }

func (k gather[T]) operands() []operand {
	return []operand{
		{name: "table", dims: 2, dtype: dtypeOf[T](), diff: !k.frozen},
		{name: "ids", dims: k.idDims, dtype: tensor.Int32},
	}
}

func (k gather[T]) output(in []tensor.Shape) (tensor.Shape, error) {
	return append(in[1].Clone(), in[0][1]), nil
}

func (k gather[T]) forward(in []*tensor.Dense, out []T) error {
	table, ids := slice[T](in[0]), in[1].Int32s()
	v, h := in[0].Shape()[0], in[0].Shape()[1]
	if err := checkIDs(ids, in[1].Shape(), v); err != nil {
		return err
	}
	parallel(len(ids), grain(h), func(lo, hi int) {
		for p := lo; p < hi; p++ {
			r := int(ids[p])
			copy(out[p*h:(p+1)*h], table[r*h:(r+1)*h])
		}
	})
	return nil
}

func (k gather[T]) backward(_ int, in []*tensor.Dense, g, dtable []T) error {
	ids := in[1].Int32s()
	v, h := in[0].Shape()[0], in[0].Shape()[1]
	if err := checkIDs(ids, in[1].Shape(), v); err != nil {
		return err
	}
	idx := indexRows(ids, v)
	parallel(len(idx.rows), grain(h), func(lo, hi int) {
		for n := lo; n < hi; n++ {
			r := int(idx.rows[n])
			sumChosen(&idx, n, dtable[r*h:(r+1)*h], func(p int) []T { return g[p*h : (p+1)*h] })
		}
	})
	return nil
}

// checkIDs returns an error for the first id outside [0, v).
func checkIDs(ids []int32, shape tensor.Shape, v int) error {
	for p, id := range ids {
		if id < 0 || int(id) >= v {
			return fmt.Errorf("%w: Gather: ids%v is %d, expected 0 ≤ id < %d (rows of the table)", ErrValue, position(p, shape), id, v)
		}
	}
	return nil
}

// position returns the coordinates of element p of a row-major tensor.
func position(p int, shape tensor.Shape) []int {
	at := make([]int, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		at[k] = p % shape[k]
		p /= shape[k]
	}
	return at
}
