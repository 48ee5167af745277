package colbert

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
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
	var wrt gorgonia.Nodes
	for i, in := range f.inputs {
		if in.diff {
			wrt = append(wrt, nodes[i])
		}
	}
	var up *gorgonia.Node
	if out.IsScalar() {
		up = gorgonia.NewScalar(g, out.Dtype(), gorgonia.WithName("up"), gorgonia.WithValue(float32(1)))
	} else {
		up = gorgonia.NewTensor(g, out.Dtype(), out.Dims(), gorgonia.WithShape(out.Shape()...), gorgonia.WithName("up"), gorgonia.WithValue(random(99, out.Shape()...)))
	}
	if _, err := gorgonia.Backpropagate(gorgonia.Nodes{out}, gorgonia.Nodes{up}, wrt); err != nil {
		b.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g)
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
func benchAgainst(b *testing.B, inputs []input, ours, builtin func(in gorgonia.Nodes) (*gorgonia.Node, error)) {
	b.Helper()
	b.Run("impl=colbert", func(b *testing.B) { benchStep(b, fixture{b.Name(), inputs, ours}) })
	b.Run("impl=builtin", func(b *testing.B) { benchStep(b, fixture{b.Name(), inputs, builtin}) })
}

func BenchmarkGather(b *testing.B) {
	ids := randomIDs(1, benchV, benchB, benchT)
	table := input{random(2, benchV, benchH), true}
	b.Run("impl=colbert", func(b *testing.B) {
		benchStep(b, fixture{b.Name(), []input{table, {ids, false}}, func(in gorgonia.Nodes) (*gorgonia.Node, error) { return Gather(in[0], in[1]) }})
	})
	b.Run("impl=builtin", func(b *testing.B) {
		flat := make([]int, 0, benchB*benchT)
		for _, id := range ids.Int32s() {
			flat = append(flat, int(id))
		}
		f := tensor.New(tensor.WithShape(len(flat)), tensor.WithBacking(flat))
		benchStep(b, fixture{b.Name(), []input{table, {f, false}}, func(in gorgonia.Nodes) (*gorgonia.Node, error) {
			x, err := gorgonia.ByIndices(in[0], in[1], 0)
			if err != nil {
				return nil, err
			}
			return gorgonia.Reshape(x, tensor.Shape{benchB, benchT, benchH})
		}})
	})
}

func BenchmarkLinear(b *testing.B) {
	for _, t := range []int{32, benchT} {
		b.Run(fmt.Sprintf("B=%d/T=%d/h=%d/dim=%d", benchB, t, benchH, benchDim), func(b *testing.B) {
			benchAgainst(b, []input{{random(1, benchB, t, benchH), true}, {random(2, benchH, benchDim), true}},
				func(in gorgonia.Nodes) (*gorgonia.Node, error) { return Linear(in[0], in[1], nil) },
				func(in gorgonia.Nodes) (*gorgonia.Node, error) {
					x, err := gorgonia.Reshape(in[0], tensor.Shape{benchB * t, benchH})
					if err != nil {
						return nil, err
					}
					y, err := gorgonia.Mul(x, in[1])
					if err != nil {
						return nil, err
					}
					return gorgonia.Reshape(y, tensor.Shape{benchB, t, benchDim})
				})
		})
	}
}

func BenchmarkL2Normalize(b *testing.B) {
	benchAgainst(b, []input{{random(1, benchB, benchT, benchDim), true}},
		func(in gorgonia.Nodes) (*gorgonia.Node, error) { return L2Normalize(in[0], 1e-12) },
		func(in gorgonia.Nodes) (*gorgonia.Node, error) {
			s, err := gorgonia.Square(in[0])
			if err != nil {
				return nil, err
			}
			if s, err = gorgonia.Sum(s, 2); err != nil {
				return nil, err
			}
			if s, err = gorgonia.Sqrt(s); err != nil {
				return nil, err
			}
			return gorgonia.BroadcastHadamardDiv(in[0], s, nil, []byte{2})
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
		benchStep(b, fixture{b.Name(), []input{scores}, func(in gorgonia.Nodes) (*gorgonia.Node, error) { return InfoNCE(in[0], InfoNCEConfig{}) }})
	})
	b.Run("impl=builtin", func(b *testing.B) {
		benchStep(b, fixture{b.Name(), []input{scores, {onehot, false}}, func(in gorgonia.Nodes) (*gorgonia.Node, error) {
			l, err := gorgonia.LogSoftMax(in[0])
			if err != nil {
				return nil, err
			}
			if l, err = gorgonia.HadamardProd(l, in[1]); err != nil {
				return nil, err
			}
			if l, err = gorgonia.Sum(l); err != nil {
				return nil, err
			}
			return gorgonia.Div(l, gorgonia.NewConstant(float32(-benchB)))
		}})
	})
}

// valueGrad is a parameter outside of a graph.
type valueGrad struct{ w, g gorgonia.Value }

func (p valueGrad) Value() gorgonia.Value         { return p.w }
func (p valueGrad) Grad() (gorgonia.Value, error) { return p.g, nil }

// BenchmarkAdam takes a step on an embedding table of which a batch touched 5120 rows at most.
func BenchmarkAdam(b *testing.B) {
	table := random(1, benchV, benchH)
	ids := randomIDs(2, benchV, benchB, 32+benchT)
	rows := indexRows(ids.Int32s(), benchV).rows
	dense := valueGrad{table, random(3, benchV, benchH)}
	sparse := valueGrad{table, &RowGrad{random(4, len(rows), benchH), rows}}
	for _, c := range []struct {
		name   string
		solver gorgonia.Solver
		param  valueGrad
	}{
		{"rows", newAdam(b, AdamConfig{MaxNorm: 1}), sparse},
		{"dense", newAdam(b, AdamConfig{MaxNorm: 1}), dense},
		{"gorgonia", gorgonia.NewAdamSolver(), dense},
	} {
		b.Run("impl="+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.solver.Step([]gorgonia.ValueGrad{c.param}); err != nil {
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
			g := gorgonia.NewGraph()
			table := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(benchV, benchH), gorgonia.WithName("table"), gorgonia.WithValue(random(1, benchV, benchH)))
			emb, err := NewEmbedding(table)
			if err != nil {
				b.Fatal(err)
			}
			lookup := emb.Lookup
			if !sparse {
				lookup = func(ids *gorgonia.Node) (*gorgonia.Node, error) { return Gather(table, ids) }
			}
			var outs, ups gorgonia.Nodes
			for i, t := range []int{32, benchT} {
				ids := gorgonia.NewTensor(g, tensor.Int32, 2, gorgonia.WithShape(benchB, t), gorgonia.WithName(fmt.Sprint("ids", i)), gorgonia.WithValue(randomIDs(uint64(i), benchV, benchB, t)))
				x, err := lookup(ids)
				if err != nil {
					b.Fatal(err)
				}
				w := gorgonia.NewTensor(g, tensor.Float32, 3, gorgonia.WithShape(benchB, t, 1), gorgonia.WithName(fmt.Sprint("w", i)), gorgonia.WithValue(random(5, benchB, t, 1)))
				y, err := ScaleTokens(x, w)
				if err != nil {
					b.Fatal(err)
				}
				outs = append(outs, y)
				ups = append(ups, gorgonia.NewTensor(g, tensor.Float32, 3, gorgonia.WithShape(y.Shape()...), gorgonia.WithName(fmt.Sprint("up", i)), gorgonia.WithValue(random(6, y.Shape()...))))
			}
			wrt, params := gorgonia.Nodes{table}, []gorgonia.ValueGrad{table}
			if sparse {
				wrt, params = emb.Lookups(), []gorgonia.ValueGrad{emb}
			}
			if _, err := gorgonia.Backpropagate(outs, ups, wrt); err != nil {
				b.Fatal(err)
			}
			vm := gorgonia.NewTapeMachine(g)
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
