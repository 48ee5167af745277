package colbert

import (
	"fmt"
	"math/rand/v2"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Sizes of the benchmarks: a batch of 32 documents of 128 tokens in a ColBERT with a vocabulary of 30000.
const (
	benchB, benchT, benchH, benchDim, benchV = 32, 128, 256, 128, 30000
)

// random returns a float32 tensor of normal values.
func random(seed uint64, shape ...int) *tensor.Dense {
	return cast(normal(rand.New(rand.NewPCG(seed, 3)), shape...), tensor.Float32)
}

func randomIDs(seed uint64, v int, shape ...int) *tensor.Dense {
	rng := rand.New(rand.NewPCG(seed, 4))
	ids := make([]int32, tensor.Shape(shape).TotalSize())
	for i := range ids {
		ids[i] = int32(rng.IntN(v))
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(ids))
}

// benchStep runs the op of f forward, and backward to its differentiable inputs from a given upstream gradient.
func benchStep(b *testing.B, f fixture) {
	b.Helper()
	g, nodes, out := f.graph(b, f.inputs)
	var wrt G.Nodes
	for i, in := range f.inputs {
		if in.diff {
			wrt = append(wrt, nodes[i])
		}
	}
	var up *G.Node
	if out.IsScalar() {
		up = G.NewScalar(g, out.Dtype(), G.WithName("up"), G.WithValue(float32(1)))
	} else {
		up = G.NewTensor(g, out.Dtype(), out.Dims(), G.WithShape(out.Shape()...), G.WithName("up"), G.WithValue(random(99, out.Shape()...)))
	}
	if _, err := G.Backpropagate(G.Nodes{out}, G.Nodes{up}, wrt); err != nil {
		b.Fatal(err)
	}
	vm := G.NewTapeMachine(g)
	defer vm.Close()
	b.ReportAllocs()
	for b.Loop() {
		if err := vm.RunAll(); err != nil {
			b.Fatal(err)
		}
		vm.Reset()
	}
}

// benchAgainst runs one step of the op of this package and of the built-ins that compute the same.
func benchAgainst(b *testing.B, inputs []input, ours, builtin func(in G.Nodes) (*G.Node, error)) {
	b.Helper()
	b.Run("impl=colbert", func(b *testing.B) { benchStep(b, fixture{b.Name(), inputs, ours}) })
	b.Run("impl=builtin", func(b *testing.B) { benchStep(b, fixture{b.Name(), inputs, builtin}) })
}

func BenchmarkGather(b *testing.B) {
	ids := randomIDs(1, benchV, benchB, benchT)
	table := input{random(2, benchV, benchH), true}
	b.Run("impl=colbert", func(b *testing.B) {
		benchStep(b, fixture{b.Name(), []input{table, {ids, false}}, func(in G.Nodes) (*G.Node, error) { return Gather(in[0], in[1]) }})
	})
	b.Run("impl=builtin", func(b *testing.B) {
		flat := make([]int, 0, benchB*benchT)
		for _, id := range ids.Int32s() {
			flat = append(flat, int(id))
		}
		f := tensor.New(tensor.WithShape(len(flat)), tensor.WithBacking(flat))
		benchStep(b, fixture{b.Name(), []input{table, {f, false}}, func(in G.Nodes) (*G.Node, error) {
			x, err := G.ByIndices(in[0], in[1], 0)
			if err != nil {
				return nil, err
			}
			return G.Reshape(x, tensor.Shape{benchB, benchT, benchH})
		}})
	})
}

func BenchmarkLinear(b *testing.B) {
	for _, t := range []int{32, benchT} {
		b.Run(fmt.Sprintf("B=%d/T=%d/h=%d/dim=%d", benchB, t, benchH, benchDim), func(b *testing.B) {
			benchAgainst(b, []input{{random(1, benchB, t, benchH), true}, {random(2, benchH, benchDim), true}},
				func(in G.Nodes) (*G.Node, error) { return Linear(in[0], in[1], nil) },
				func(in G.Nodes) (*G.Node, error) {
					x, err := G.Reshape(in[0], tensor.Shape{benchB * t, benchH})
					if err != nil {
						return nil, err
					}
					y, err := G.Mul(x, in[1])
					if err != nil {
						return nil, err
					}
					return G.Reshape(y, tensor.Shape{benchB, t, benchDim})
				})
		})
	}
}

func BenchmarkL2Normalize(b *testing.B) {
	benchAgainst(b, []input{{random(1, benchB, benchT, benchDim), true}},
		func(in G.Nodes) (*G.Node, error) { return L2Normalize(in[0], 1e-12) },
		func(in G.Nodes) (*G.Node, error) {
			s, err := G.Square(in[0])
			if err != nil {
				return nil, err
			}
			if s, err = G.Sum(s, 2); err != nil {
				return nil, err
			}
			if s, err = G.Sqrt(s); err != nil {
				return nil, err
			}
			return G.BroadcastHadamardDiv(in[0], s, nil, []byte{2})
		})
}

func BenchmarkInfoNCE(b *testing.B) {
	labels := make([]float32, benchB*benchB)
	for i := range benchB {
		labels[i*benchB+i] = 1
	}
	onehot := tensor.New(tensor.WithShape(benchB, benchB), tensor.WithBacking(labels))
	scores := input{random(1, benchB, benchB), true}
	b.Run("impl=colbert", func(b *testing.B) {
		benchStep(b, fixture{b.Name(), []input{scores}, func(in G.Nodes) (*G.Node, error) { return InfoNCE(in[0], InfoNCEConfig{}) }})
	})
	b.Run("impl=builtin", func(b *testing.B) {
		benchStep(b, fixture{b.Name(), []input{scores, {onehot, false}}, func(in G.Nodes) (*G.Node, error) {
			l, err := G.LogSoftMax(in[0])
			if err != nil {
				return nil, err
			}
			if l, err = G.HadamardProd(l, in[1]); err != nil {
				return nil, err
			}
			if l, err = G.Sum(l); err != nil {
				return nil, err
			}
			return G.Div(l, G.NewConstant(float32(-benchB)))
		}})
	})
}

// valueGrad is a parameter outside of a graph.
type valueGrad struct{ w, g G.Value }

func (p valueGrad) Value() G.Value         { return p.w }
func (p valueGrad) Grad() (G.Value, error) { return p.g, nil }

// BenchmarkAdam takes a step on an embedding table of which a batch touched 5120 rows at most.
func BenchmarkAdam(b *testing.B) {
	table := random(1, benchV, benchH)
	ids := randomIDs(2, benchV, benchB, 32+benchT)
	rows := indexRows(ids.Int32s(), benchV).rows
	dense := valueGrad{table, random(3, benchV, benchH)}
	sparse := valueGrad{table, &RowGrad{random(4, len(rows), benchH), rows}}
	for _, c := range []struct {
		name   string
		solver G.Solver
		param  valueGrad
	}{
		{"rows", newAdam(b, AdamConfig{MaxNorm: 1}), sparse},
		{"dense", newAdam(b, AdamConfig{MaxNorm: 1}), dense},
		{"gorgonia", G.NewAdamSolver(), dense},
	} {
		b.Run("impl="+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.solver.Step([]G.ValueGrad{c.param}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func newAdam(t testing.TB, cfg AdamConfig) *Adam {
	t.Helper()
	a, err := NewAdam(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// BenchmarkTable is all that an embedding table costs in a training step, from ids to updated rows: as an Embedding,
// and as a differentiable input of Gather.
func BenchmarkTable(b *testing.B) {
	for _, sparse := range []bool{true, false} {
		b.Run(fmt.Sprintf("embedding=%v", sparse), func(b *testing.B) {
			g := G.NewGraph()
			table := G.NewMatrix(g, tensor.Float32, G.WithShape(benchV, benchH), G.WithName("table"), G.WithValue(random(1, benchV, benchH)))
			emb, err := NewEmbedding(table)
			if err != nil {
				b.Fatal(err)
			}
			lookup := emb.Lookup
			if !sparse {
				lookup = func(ids *G.Node) (*G.Node, error) { return Gather(table, ids) }
			}
			var outs, ups G.Nodes
			for i, t := range []int{32, benchT} {
				ids := G.NewTensor(g, tensor.Int32, 2, G.WithShape(benchB, t), G.WithName(fmt.Sprint("ids", i)), G.WithValue(randomIDs(uint64(i), benchV, benchB, t)))
				x, err := lookup(ids)
				if err != nil {
					b.Fatal(err)
				}
				w := G.NewTensor(g, tensor.Float32, 3, G.WithShape(benchB, t, 1), G.WithName(fmt.Sprint("w", i)), G.WithValue(random(5, benchB, t, 1)))
				y, err := ScaleTokens(x, w)
				if err != nil {
					b.Fatal(err)
				}
				outs = append(outs, y)
				ups = append(ups, G.NewTensor(g, tensor.Float32, 3, G.WithShape(y.Shape()...), G.WithName(fmt.Sprint("up", i)), G.WithValue(random(6, y.Shape()...))))
			}
			wrt, params := G.Nodes{table}, []G.ValueGrad{table}
			if sparse {
				wrt, params = emb.Lookups(), []G.ValueGrad{emb}
			}
			if _, err := G.Backpropagate(outs, ups, wrt); err != nil {
				b.Fatal(err)
			}
			vm := G.NewTapeMachine(g)
			defer vm.Close()
			adam := newAdam(b, AdamConfig{MaxNorm: 1})
			b.ReportAllocs()
			for b.Loop() {
				if err := vm.RunAll(); err != nil {
					b.Fatal(err)
				}
				if err := adam.Step(params); err != nil {
					b.Fatal(err)
				}
				vm.Reset()
			}
		})
	}
}
