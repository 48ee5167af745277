package colbert_test

import (
	"math/rand/v2"
	"testing"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/colbert"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// BenchmarkStep is a whole training step of a ColBERT: run of the graph and update of the weights.
func BenchmarkStep(b *testing.B) {
	const batch, tq, td, v, h, dim = 32, 32, 128, 30000, 256, 128
	rng := rand.New(rand.NewPCG(1, 1))
	g := gorgonia.NewGraph()
	weights := func(name string, shape ...int) *gorgonia.Node {
		x := make([]float32, tensor.Shape(shape).TotalSize())
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		t := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(x))
		return gorgonia.NewTensor(g, tensor.Float32, len(shape), gorgonia.WithShape(shape...), gorgonia.WithName(name), gorgonia.WithValue(t))
	}
	ids := func(name string, tokens int) *gorgonia.Node {
		x := make([]int32, batch*tokens)
		for i := range x {
			x[i] = rng.Int32N(v)
		}
		t := tensor.New(tensor.WithShape(batch, tokens), tensor.WithBacking(x))
		return gorgonia.NewMatrix(g, tensor.Int32, gorgonia.WithShape(batch, tokens), gorgonia.WithName(name), gorgonia.WithValue(t))
	}
	must := func(n *gorgonia.Node, err error) *gorgonia.Node {
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	w := weights("w", h, dim)
	emb, err := colbert.NewEmbedding(weights("table", v, h))
	if err != nil {
		b.Fatal(err)
	}
	encode := func(ids *gorgonia.Node) *gorgonia.Node {
		return must(colbert.L2Normalize(must(colbert.Linear(must(emb.Lookup(ids)), w, nil)), 1e-12))
	}
	scores := must(maxsim.InBatch(encode(ids("qids", tq)), encode(ids("dids", td)), maxsim.Config{}))
	loss := must(colbert.InfoNCE(scores, colbert.InfoNCEConfig{Temperature: 0.05}))
	if _, err := colbert.Grad(loss, append(emb.Lookups(), w)...); err != nil {
		b.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g)
	defer vm.Close()
	adam, err := colbert.NewAdam(colbert.AdamConfig{MaxNorm: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := vm.RunAll(); err != nil {
			b.Fatal(err)
		}
		if err := adam.Step([]gorgonia.ValueGrad{emb, w}); err != nil {
			b.Fatal(err)
		}
		vm.Reset()
	}
}
