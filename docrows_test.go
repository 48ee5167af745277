package maxsim

import (
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
)

// TestDocGradRowsAreTheDenseGradient: the named rows have the bits of the dense gradient, all others are 0 there.
func TestDocGradRowsAreTheDenseGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, mean := range []bool{false, true} {
		g := gorgonia.NewGraph()
		q := gorgonia.NodeFromAny(g, randomTokens[float32](r, 2, 3, 5), gorgonia.WithName("q"))
		d := gorgonia.NodeFromAny(g, randomTokens[float32](r, 4, 9, 5), gorgonia.WithName("d"))
		up := gorgonia.NodeFromAny(g, randomTokens[float32](r, 2, 4), gorgonia.WithName("up"))
		scores, err := InBatch(q, d, Config{Mean: mean})
		if err != nil {
			t.Fatal(err)
		}
		dense, err := gorgonia.Backpropagate(gorgonia.Nodes{scores}, gorgonia.Nodes{up}, gorgonia.Nodes{d})
		if err != nil {
			t.Fatal(err)
		}
		rows, grads, err := DocGradRows(scores, up)
		if err != nil {
			t.Fatal(err)
		}
		vm := gorgonia.NewTapeMachine(g)
		if err := vm.RunAll(); err != nil {
			t.Fatal(err)
		}
		want := append([]float32(nil), dense[0].Value().Data().([]float32)...)
		got := grads.Value().Data().([]float32)
		named := 0
		for x, row := range rows.Value().Data().([]int32) {
			for k := range 5 {
				if row < 0 {
					if got[x*5+k] != 0 {
						t.Fatalf("row %d is unused but holds %v", x, got[x*5+k])
					}
					continue
				}
				if at := int(row)*5 + k; got[x*5+k] != want[at] {
					t.Fatalf("row %d: %v, dense gradient %v", row, got[x*5+k], want[at])
				} else {
					want[at] = 0
				}
			}
			if row >= 0 {
				named++
			}
		}
		for at, x := range want {
			if x != 0 {
				t.Fatalf("row %d has gradient %v but is not named", at/5, x)
			}
		}
		if named < 5 || named == 36 {
			t.Fatalf("%d rows named: the comparison shows nothing", named)
		}
		if err := vm.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
