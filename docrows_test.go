package maxsim_test

import (
	"testing"

	"gorgonia.org/gorgonia"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// TestDocGradRowsAreTheDenseGradient: in every layout, with every kind of mask, the named rows have the bits of the dense
// gradient, all others are 0 there.
func TestDocGradRowsAreTheDenseGradient(t *testing.T) {
	for _, c := range gradCases() {
		for _, mean := range []bool{false, true} {
			c.setting.cfg.Mean, c.setting.cpu = mean, true
			p := newGradProblem(t, c)
			name := c.name
			if mean {
				name += "/mean"
			}
			t.Run(name+"/float32", func(t *testing.T) { testDocGradRows[float32](t, c, p) })
			t.Run(name+"/float64", func(t *testing.T) { testDocGradRows[float64](t, c, p) })
		}
	}
}

func testDocGradRows[T layout.Float](t *testing.T, c gradCase, p *gradProblem) {
	g, _, dd := mustGrad(t, c.setting, inputsOf[T](c, p, machines[0]))
	rows, grads, err := maxsim.DocGradRows(g.scores, g.upstream)
	if err != nil {
		t.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g.ExprGraph)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	dim := p.batch.Dim
	want, got := elements[T](dd.Value()), elements[T](grads.Value())
	sparse := make([]T, len(want))
	last, named := int32(-1), 0
	for x, row := range elements[int32](rows.Value()) {
		grad := got[x*dim : (x+1)*dim]
		if row < 0 {
			if at := firstDifference(grad, make([]T, dim)); at >= 0 {
				t.Errorf("row %d is unused but holds %v", x, grad)
			}
			continue
		}
		if named != x || row <= last {
			t.Errorf("row %d follows %d at %d: rows do not ascend, or not at the front", row, last, x)
		}
		copy(sparse[int(row)*dim:], grad)
		last, named = row, named+1
	}
	if at := firstDifference(sparse, want); at >= 0 {
		t.Errorf("element %d is %v, in the dense gradient %v", at, sparse[at], want[at])
	}
	if named == 0 || named == p.batch.D.Rows {
		t.Errorf("%d of %d rows named: the comparison shows nothing", named, p.batch.D.Rows)
	}
}
