package colbert

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Embedding is a trainable table [V,h] whose gradient is never a dense [V,h] tensor. Its look-ups are graph nodes
// that end the differentiation: ask [Grad] for the gradients of the looked-up rows ([Embedding.Lookups]) and give the
// Embedding to [Adam] as one of its parameters.
//
//	emb, err := colbert.NewEmbedding(table)
//	q, err := emb.Lookup(queryIDs)
//	d, err := emb.Lookup(documentIDs)
//	…
//	_, err = colbert.Grad(loss, append(emb.Lookups(), w)...)
//	…
//	err = adam.Step([]gorgonia.ValueGrad{emb, w})
//
// It belongs to one graph and holds no numbers: ids and gradients are those of the nodes after a run. So take the step
// before the graph gets the ids of the next batch, and do not add up gradients over runs with different ids. Look-ups
// that feed more than ops of this package (an added position, say) may need gorgonia.BindDualValues(emb.Lookups()...) on
// the TapeMachine; without it [Embedding.Grad] then returns an error.
type Embedding struct {
	table   *gorgonia.Node
	ids     gorgonia.Nodes
	lookups gorgonia.Nodes
}

// NewEmbedding returns an embedding over a table node [V,h] of float32 or float64.
func NewEmbedding(table *gorgonia.Node) (*Embedding, error) {
	if err := floatNode("NewEmbedding", "table", table); err != nil {
		return nil, err
	}
	if table.Dims() != 2 {
		return nil, fmt.Errorf("%w: NewEmbedding: table has shape %v, expected [V,h]", ErrShape, table.Shape())
	}
	return &Embedding{table: table}, nil
}

// Lookup reads rows of the table as [Gather] does.
func (e *Embedding) Lookup(ids *gorgonia.Node) (*gorgonia.Node, error) {
	rows, err := gatherNode(e.table, ids, true)
	if err != nil {
		return nil, err
	}
	for _, known := range e.lookups {
		if known == rows { // the same ids again: Gorgonia has merged the nodes and their gradients
			return rows, nil
		}
	}
	e.ids = append(e.ids, ids)
	e.lookups = append(e.lookups, rows)
	return rows, nil
}

// Lookups returns the looked-up rows: the nodes to name to [Grad] in place of the table.
func (e *Embedding) Lookups() gorgonia.Nodes { return append(gorgonia.Nodes{}, e.lookups...) }

// Name returns the name of the table node.
func (e *Embedding) Name() string { return e.table.Name() }

// Value returns the table.
func (e *Embedding) Value() gorgonia.Value { return e.table.Value() }

// Grad returns the gradient of the table after a run, a *[RowGrad]: the upstream rows of all look-ups, summed in the
// order of the look-ups and of their ids.
func (e *Embedding) Grad() (_ gorgonia.Value, err error) {
	defer recoverInto("Embedding", &err)
	if len(e.lookups) == 0 {
		return nil, fmt.Errorf("%w: Embedding %s has no look-up", ErrValue, e.Name())
	}
	if e.table.Dtype() == tensor.Float32 {
		return rowGrad[float32](e)
	}
	return rowGrad[float64](e)
}

// ZeroGrad sets the gradients of the look-ups to 0.
func (e *Embedding) ZeroGrad() error {
	for i, n := range e.lookups {
		g, err := n.Grad()
		if err != nil {
			return fmt.Errorf("%w: Embedding %s: look-up %d: %w", ErrValue, e.Name(), i, err)
		}
		if z, ok := g.(gorgonia.Zeroer); ok {
			z.Zero()
		}
	}
	return nil
}

// RowGrad is the gradient of a table [V,h] of which only some rows were used: row Rows[n] of the table has the
// gradient in row n of the tensor [len(Rows),h], every other row has gradient 0.
type RowGrad struct {
	*tensor.Dense
	Rows []int32 // ascending, each once
}

// check returns an error unless the rows ascend in [0, v).
func (g *RowGrad) check(v int) error {
	last := int32(-1)
	for n, r := range g.Rows {
		if r <= last || int(r) >= v {
			return fmt.Errorf("%w: RowGrad: entry %d of Rows is %d after %d, expected ascending rows below %d", ErrValue, n, r, last, v)
		}
		last = r
	}
	return nil
}

func rowGrad[T layout.Float](e *Embedding) (gorgonia.Value, error) {
	v, h := e.table.Shape()[0], e.table.Shape()[1]
	var ids []int32
	var upstream [][]T // one row for each id
	for i, n := range e.lookups {
		idv, err := rowMajor(e.ids[i].Value())
		if err != nil {
			return nil, fmt.Errorf("%w (ids of look-up %d of Embedding %s)", err, i, e.Name())
		}
		gv, err := n.Grad()
		if err != nil {
			return nil, fmt.Errorf("%w: Embedding %s: look-up %d: %w", ErrValue, e.Name(), i, err)
		}
		if err := overwritten(n, gv); err != nil {
			return nil, fmt.Errorf("%w (look-up %d of Embedding %s)", err, i, e.Name())
		}
		g, err := gradient[T]("Embedding", n.Shape(), gv)
		if err != nil {
			return nil, err
		}
		if err := checkIDs(idv.Int32s(), idv.Shape(), v); err != nil {
			return nil, err
		}
		ids = append(ids, idv.Int32s()...)
		for lo := 0; lo < len(g); lo += h {
			upstream = append(upstream, g[lo:lo+h])
		}
	}
	idx := indexRows(ids, v)
	sum := make([]T, len(idx.rows)*h)
	parallel(len(idx.rows), grain(h), func(lo, hi int) {
		for n := lo; n < hi; n++ {
			sumChosen(&idx, n, sum[n*h:(n+1)*h], func(p int) []T { return upstream[p] })
		}
	})
	return &RowGrad{tensor.New(tensor.WithShape(len(idx.rows), h), tensor.WithBacking(sum)), idx.rows}, nil
}

var _ gorgonia.ValueGrad = (*Embedding)(nil)
