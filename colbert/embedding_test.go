package colbert

import (
	"fmt"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// tableGraph looks three batches of ids up in a table, two of them equal, and weighs what it finds.
func tableGraph(t testing.TB, table *tensor.Dense, lookup func(table, ids *gorgonia.Node) (*gorgonia.Node, error)) (*gorgonia.Node, *gorgonia.Node) {
	t.Helper()
	g := gorgonia.NewGraph()
	n := gorgonia.NewMatrix(g, table.Dtype(), gorgonia.WithShape(table.Shape()...), gorgonia.WithName("table"), gorgonia.WithValue(table))
	var loss *gorgonia.Node
	for i, ids := range []*tensor.Dense{randomIDs(1, 20, 3, 4), randomIDs(2, 20, 2, 5), randomIDs(1, 20, 3, 4)} {
		name := fmt.Sprint("ids", i%2)
		x, err := lookup(n, gorgonia.NewTensor(g, tensor.Int32, 2, gorgonia.WithShape(ids.Shape()...), gorgonia.WithName(name), gorgonia.WithValue(ids)))
		if err != nil {
			t.Fatal(err)
		}
		w := cast(normalOf(uint64(10+i), x.Shape()...), table.Dtype())
		weight := gorgonia.NewTensor(g, table.Dtype(), 3, gorgonia.WithShape(x.Shape()...), gorgonia.WithName(fmt.Sprint("weight", i)), gorgonia.WithValue(w))
		part := gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(gorgonia.Must(gorgonia.Square(x)), weight))))
		if loss == nil {
			loss = part
		} else {
			loss = gorgonia.Must(gorgonia.Add(loss, part))
		}
	}
	return n, loss
}

// TestEmbeddingGradient holds the touched rows of an Embedding against the dense gradient of Gather.
func TestEmbeddingGradient(t *testing.T) {
	for _, dt := range []tensor.Dtype{tensor.Float32, tensor.Float64} {
		for _, machine := range []string{"tape", "tape with dual values", "lisp"} {
			t.Run(fmt.Sprint(dt, " ", machine), func(t *testing.T) {
				table := cast(normalOf(3, 20, 6), dt)
				dense, loss := tableGraph(t, table, Gather)
				if _, err := gorgonia.Grad(loss, dense); err != nil {
					t.Fatal(err)
				}
				run(t, gorgonia.NewTapeMachine(dense.Graph()))
				want, err := dense.Grad()
				if err != nil {
					t.Fatal(err)
				}

				var emb *Embedding
				_, loss = tableGraph(t, table, func(n, ids *gorgonia.Node) (*gorgonia.Node, error) {
					if emb == nil {
						if emb, err = NewEmbedding(n); err != nil {
							return nil, err
						}
					}
					return emb.Lookup(ids)
				})
				if len(emb.Lookups()) != 2 {
					t.Errorf("%d look-ups, want 2: the same ids twice are one", len(emb.Lookups()))
				}
				runs := 1
				switch machine {
				case "lisp":
					run(t, gorgonia.NewLispMachine(loss.Graph()))
				case "tape":
					grad(t, loss, emb.Lookups())
					run(t, gorgonia.NewTapeMachine(loss.Graph()))
				default: // gradients add up over runs
					grad(t, loss, emb.Lookups())
					vm := gorgonia.NewTapeMachine(loss.Graph(), gorgonia.BindDualValues(emb.Lookups()...))
					for range 2 {
						if err := vm.RunAll(); err != nil {
							t.Fatal(err)
						}
						vm.Reset()
					}
					vm.Close()
					runs = 2
				}
				compareRows(t, emb, want, float64(runs))
				if err := emb.ZeroGrad(); err != nil {
					t.Fatal(err)
				}
				compareRows(t, emb, want, 0)
			})
		}
	}
}

// compareRows expects factor times the dense gradient want.
func compareRows(t *testing.T, emb *Embedding, want gorgonia.Value, factor float64) {
	t.Helper()
	v, err := emb.Grad()
	if err != nil {
		t.Fatal(err)
	}
	got := v.(*RowGrad)
	if !slices.IsSorted(got.Rows) || len(slices.Compact(slices.Clone(got.Rows))) != len(got.Rows) {
		t.Fatalf("rows %v do not ascend", got.Rows)
	}
	rows, dense, h := float64s(got), float64s(want), want.Shape()[1]
	full := make([]float64, len(dense))
	for n, r := range got.Rows {
		copy(full[int(r)*h:], rows[n*h:(n+1)*h])
	}
	for i := range full {
		// Two orders of a sum of at most a dozen terms below 20 in float32.
		if diff := full[i] - factor*dense[i]; diff > 2e-5 || diff < -2e-5 {
			t.Errorf("gradient of row %d is %v, dense %v times %v", i/h, full[i], dense[i], factor)
		}
	}
}

func grad(t testing.TB, loss *gorgonia.Node, wrt gorgonia.Nodes) {
	t.Helper()
	if _, err := Grad(loss, wrt...); err != nil {
		t.Fatal(err)
	}
}

func run(t testing.TB, vm gorgonia.VM) {
	t.Helper()
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
}

func TestEmbeddingErrors(t *testing.T) {
	g := gorgonia.NewGraph()
	table := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(4, 5), gorgonia.WithName("table"), gorgonia.WithValue(random(1, 4, 5)))
	emb, err := NewEmbedding(table)
	if err != nil {
		t.Fatal(err)
	}
	_, err = emb.Grad()
	wantError(t, err, ErrValue, "Embedding table has no look-up")
	if _, err = emb.Lookup(gorgonia.NewVector(g, tensor.Int32, gorgonia.WithShape(3), gorgonia.WithName("ids"), gorgonia.WithValue(int32s([]int{3}, 1, 2, 1)))); err != nil {
		t.Fatal(err)
	}
	_, err = emb.Grad()
	wantError(t, err, ErrValue, "Embedding table: look-up 0: No Gradient node/value found")
	wantError(t, emb.ZeroGrad(), ErrValue, "Embedding table: look-up 0: No Gradient node/value found")
}

// FuzzIndexRows: the inverse of a list of ids holds every position once, at its id, in order.
func FuzzIndexRows(f *testing.F) {
	f.Add([]byte{3, 1, 3, 0, 255, 3})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		ids := make([]int32, len(b))
		for i, x := range b {
			ids[i] = int32(x)
		}
		idx := indexRows(ids, 256)
		seen := 0
		for n, r := range idx.rows {
			if n > 0 && idx.rows[n-1] >= r {
				t.Fatalf("rows %v do not ascend", idx.rows)
			}
			pos := idx.pos[idx.first[n]:idx.first[n+1]]
			if len(pos) == 0 || !slices.IsSorted(pos) {
				t.Fatalf("positions %v of row %d", pos, r)
			}
			for _, p := range pos {
				if ids[p] != r {
					t.Fatalf("position %d of row %d has id %d", p, r, ids[p])
				}
				seen++
			}
		}
		if seen != len(ids) {
			t.Fatalf("%d positions of %d", seen, len(ids))
		}
	})
}

// TestGradientOverwritten: the gradient of a look-up may also be what another op of the graph reads, and a binary
// elementwise op writes its result into what it reads last: here, the gradient over the argument of a logarithm. Through
// a Reshape, which leaves the memory as it is, it writes into the gradients of weights, too.
func TestGradientOverwritten(t *testing.T) {
	for _, c := range []struct{ weights, reshaped, bound bool }{
		{}, {bound: true}, {reshaped: true}, {reshaped: true, bound: true},
		{weights: true}, {weights: true, reshaped: true}, {weights: true, reshaped: true, bound: true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			g := gorgonia.NewGraph()
			input := func(name string, v *tensor.Dense) *gorgonia.Node {
				return gorgonia.NewTensor(g, v.Dtype(), v.Dims(), gorgonia.WithShape(v.Shape()...), gorgonia.WithName(name), gorgonia.WithValue(v))
			}
			x := input("weights", normalOf(1, 2, 2, 3))
			var trained gorgonia.ValueGrad = x
			if !c.weights {
				emb, err := NewEmbedding(input("table", normalOf(1, 5, 3)))
				if err != nil {
					t.Fatal(err)
				}
				if x, err = emb.Lookup(input("ids", int32s([]int{2, 2}, 0, 1, 2, 3))); err != nil {
					t.Fatal(err)
				}
				trained = emb
			}
			shape := []int{2, 2, 3}
			if c.reshaped {
				shape = []int{4, 3}
			}
			upstream, position := normalOf(2, 2, 2, 3), input("position", normalOf(4, shape...))
			p := gorgonia.Must(gorgonia.Log(gorgonia.Must(gorgonia.Square(position))))
			if c.reshaped {
				p = gorgonia.Must(gorgonia.Reshape(p, []int{2, 2, 3}))
			}
			y := gorgonia.Must(gorgonia.HadamardProd(gorgonia.Must(gorgonia.Add(x, p)), input("upstream", upstream)))
			grad(t, gorgonia.Must(gorgonia.Sum(y)), gorgonia.Nodes{x, position})
			var opts []gorgonia.VMOpt
			if c.bound {
				opts = append(opts, gorgonia.BindDualValues(x, position))
			}
			run(t, gorgonia.NewTapeMachine(g, opts...))
			adam, err := NewAdam(AdamConfig{})
			if err != nil {
				t.Fatal(err)
			}
			before := slices.Clone(float64s(trained.Value().(*tensor.Dense)))
			got, err := trained.Grad()
			if err == nil && !c.bound && c.reshaped {
				err = adam.Step([]gorgonia.ValueGrad{trained})
			}
			if !c.bound && (c.reshaped || !c.weights) {
				wantError(t, err, ErrValue, "gradient was overwritten by ÷ false: run with gorgonia.BindDualValues")
				if !slices.Equal(float64s(trained.Value().(*tensor.Dense)), before) {
					t.Error("the weights changed")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if rows, ok := got.(*RowGrad); ok {
				got = rows.Dense
			}
			if !slices.Equal(float64s(got.(*tensor.Dense)), upstream.Float64s()) {
				t.Errorf("gradient %v, want %v", got, upstream)
			}
			if err := adam.Step([]gorgonia.ValueGrad{trained}); err != nil {
				t.Error(err)
			}
		})
	}
}
