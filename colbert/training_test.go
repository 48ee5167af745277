package colbert_test

import (
	"math"
	"math/rand/v2"
	"testing"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/colbert"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// model is a ColBERT with everything this package has, in float64.
type model struct {
	loss       *gorgonia.Node
	emb        *colbert.Embedding
	importance *colbert.Embedding
	w, bias    *gorgonia.Node
}

// weights are the values of a model, shared by all graphs that train it.
type weights struct{ table, importance, w, bias *tensor.Dense }

func newWeights() weights {
	rng := rand.New(rand.NewPCG(4, 4))
	normal := func(shape ...int) *tensor.Dense {
		x := make([]float64, tensor.Shape(shape).TotalSize())
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(x))
	}
	return weights{normal(30, 8), normal(30, 1), normal(8, 6), normal(6)}
}

func (w weights) model(t *testing.T) *model {
	t.Helper()
	g := gorgonia.NewGraph()
	param := func(name string, v *tensor.Dense) *gorgonia.Node {
		return gorgonia.NewTensor(g, v.Dtype(), v.Dims(), gorgonia.WithShape(v.Shape()...), gorgonia.WithName(name), gorgonia.WithValue(v))
	}
	m := &model{w: param("w", w.w), bias: param("bias", w.bias)}
	var err error
	must := func(n *gorgonia.Node, err error) *gorgonia.Node {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if m.emb, err = colbert.NewEmbedding(param("table", w.table)); err != nil {
		t.Fatal(err)
	}
	if m.importance, err = colbert.NewEmbedding(param("importance", w.importance)); err != nil {
		t.Fatal(err)
	}
	encode := func(ids *gorgonia.Node) *gorgonia.Node {
		return must(colbert.L2Normalize(must(colbert.Linear(must(m.emb.Lookup(ids)), m.w, m.bias)), 1e-12))
	}
	rng := rand.New(rand.NewPCG(5, 5))
	ids := func(name string, b, tokens int) *gorgonia.Node {
		x := make([]int32, b*tokens)
		for i := range x {
			x[i] = rng.Int32N(30)
		}
		return param(name, tensor.New(tensor.WithShape(b, tokens), tensor.WithBacking(x)))
	}
	qids := ids("qids", 4, 3)
	q := must(colbert.ScaleTokens(encode(qids), must(m.importance.Lookup(qids))))
	scores := must(maxsim.InBatch(q, encode(ids("dids", 4, 7)), maxsim.Config{}))
	m.loss = must(colbert.InfoNCE(scores, colbert.InfoNCEConfig{Temperature: 0.5, Symmetric: true}))
	return m
}

func (m *model) parameters() []gorgonia.ValueGrad {
	return []gorgonia.ValueGrad{m.emb, m.importance, m.w, m.bias}
}

// TestTraining trains one model on a TapeMachine and another on LispMachines: both must go the same way, downhill.
func TestTraining(t *testing.T) {
	const steps = 20
	adam := func() *colbert.Adam {
		a, err := colbert.NewAdam(colbert.AdamConfig{LearningRate: 0.02, MaxNorm: 1, WeightDecay: 0.01})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	step := func(a *colbert.Adam, vm gorgonia.VM, m *model) {
		t.Helper()
		if err := vm.RunAll(); err != nil {
			t.Fatal(err)
		}
		if err := a.Step(m.parameters()); err != nil {
			t.Fatal(err)
		}
		vm.Reset()
	}

	tape := newWeights()
	m := tape.model(t)
	wrt := append(append(m.emb.Lookups(), m.importance.Lookups()...), m.w, m.bias)
	if _, err := colbert.Grad(m.loss, wrt...); err != nil {
		t.Fatal(err)
	}
	var loss gorgonia.Value
	gorgonia.Read(m.loss, &loss)
	vm, a := gorgonia.NewTapeMachine(m.loss.Graph()), adam()
	defer vm.Close()
	var losses []float64
	for range steps {
		step(a, vm, m)
		losses = append(losses, loss.Data().(float64))
	}
	if losses[steps-1] > losses[0]/2 {
		t.Errorf("loss went from %v to %v", losses[0], losses[steps-1])
	}

	lisp := newWeights()
	a = adam()
	for range steps {
		m := lisp.model(t) // a LispMachine does not recompute a graph
		vm := gorgonia.NewLispMachine(m.loss.Graph())
		step(a, vm, m)
		vm.Close()
	}
	for i, pair := range [][2]*tensor.Dense{{tape.table, lisp.table}, {tape.importance, lisp.importance}, {tape.w, lisp.w}, {tape.bias, lisp.bias}} {
		for k, x := range pair[0].Float64s() {
			// The machines add gradients in another order; Adam turns a rounding of a gradient near 0 into more than that.
			if y := pair[1].Float64s()[k]; math.Abs(x-y) > 1e-9 {
				t.Fatalf("parameter %d at %d is %v by TapeMachine, %v by LispMachine", i, k, x, y)
			}
		}
	}
}
