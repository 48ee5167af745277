package maxsim_test

import (
	"slices"
	"testing"

	"gorgonia.org/gorgonia"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
)

// TestInverseGridListsWhoChoseARow: in every layout, with every kind of mask, row r of the inverse grid holds the query
// token rows whose argmax is r, ascending.
func TestInverseGridListsWhoChoseARow(t *testing.T) {
	for _, c := range gradCases() {
		t.Run(c.name, func(t *testing.T) {
			p := newGradProblem(t, c)
			g, _, _ := mustGrad(t, c.setting, inputsOf[float32](c, p, machines[0]))
			if _, err := maxsim.Argmax(g.scores); err != nil {
				t.Fatal(err)
			}
			vm := gorgonia.NewTapeMachine(g.ExprGraph)
			defer vm.Close()
			if err := vm.RunAll(); err != nil {
				t.Fatal(err)
			}
			inverse, err := maxsim.InverseGrid(g.scores)
			if err != nil {
				t.Fatal(err)
			}
			b := p.batch
			want := make([][]int32, b.D.Rows)
			for i := range b.Q.Len() {
				for t := range b.Q.Tokens(i) {
					for k := range b.Cols() {
						if u := p.argmax[b.TapeAt(i, k)+t]; u >= 0 {
							row := b.D.Cu[b.Doc(i, k)] + int(u)
							want[row] = append(want[row], int32(b.Q.Cu[i]+t))
						}
					}
				}
			}
			if n := len(inverse.RowOffsets); n != b.D.Rows+1 {
				t.Fatalf("%d row offsets for %d document rows", n, b.D.Rows)
			}
			for row := range want {
				if got := inverse.Row(row); !slices.Equal(got, want[row]) {
					t.Errorf("row %d was chosen by %v, expected %v", row, got, want[row])
				}
			}
		})
	}
}
