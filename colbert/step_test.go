package colbert_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/colbert"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// BenchmarkStep is a whole training step of a ColBERT, run of the graph and update of the weights: with this package,
// with Gorgonia's own ops around the fused MaxSim, and with Gorgonia's own ops alone.
func BenchmarkStep(b *testing.B) {
	b.Run("encoder=colbert/maxsim=fused", func(b *testing.B) { newTrainer(b).withColbert().bench(b) })
	b.Run("encoder=builtin/maxsim=fused", func(b *testing.B) { newTrainer(b).withBuiltins(fused).bench(b) })
	b.Run("encoder=builtin/maxsim=composed", func(b *testing.B) { newTrainer(b).withBuiltins(composed).bench(b) })
}

// Sizes of BenchmarkStep.
const (
	stepB, stepTq, stepTd         = 32, 32, 128
	stepV, stepH, stepDim         = 30000, 256, 128
	stepEpsilon, stepTemp float64 = 1e-12, 0.05
)

// trainer is a graph with its optimiser.
type trainer struct {
	t      testing.TB
	g      *gorgonia.ExprGraph
	rng    *rand.Rand
	table  *gorgonia.Node
	w      *gorgonia.Node
	params []gorgonia.ValueGrad
	solver gorgonia.Solver
}

func newTrainer(tb testing.TB) *trainer {
	t := &trainer{t: tb, g: gorgonia.NewGraph(), rng: rand.New(rand.NewPCG(1, 1))}
	t.table, t.w = t.weights("table", stepV, stepH), t.weights("w", stepH, stepDim)
	return t
}

func (t *trainer) weights(name string, rows, cols int) *gorgonia.Node {
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(t.rng.NormFloat64())
	}
	return t.input(name, tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(x)))
}

func (t *trainer) input(name string, v *tensor.Dense) *gorgonia.Node {
	return gorgonia.NewTensor(t.g, v.Dtype(), v.Dims(), gorgonia.WithShape(v.Shape()...), gorgonia.WithName(name), gorgonia.WithValue(v))
}

// must ends the test on an error.
func (t *trainer) must(n *gorgonia.Node, err error) *gorgonia.Node {
	t.t.Helper()
	if err != nil {
		t.t.Fatal(err)
	}
	return n
}

func (t *trainer) withColbert() *trainer {
	emb, err := colbert.NewEmbedding(t.table)
	if err != nil {
		t.t.Fatal(err)
	}
	encode := func(name string, tokens int) *gorgonia.Node {
		ids := make([]int32, stepB*tokens)
		for i := range ids {
			ids[i] = t.rng.Int32N(stepV)
		}
		x := t.must(emb.Lookup(t.input(name, tensor.New(tensor.WithShape(stepB, tokens), tensor.WithBacking(ids)))))
		return t.must(colbert.L2Normalize(t.must(colbert.Linear(x, t.w, nil)), stepEpsilon))
	}
	scores := t.must(maxsim.InBatch(encode("qids", stepTq), encode("dids", stepTd), maxsim.Config{}))
	loss := t.must(colbert.InfoNCE(scores, colbert.InfoNCEConfig{Temperature: stepTemp}))
	if _, err := colbert.Grad(loss, append(emb.Lookups(), t.w)...); err != nil {
		t.t.Fatal(err)
	}
	t.params = []gorgonia.ValueGrad{emb, t.w}
	if t.solver, err = colbert.NewAdam(colbert.AdamConfig{}); err != nil {
		t.t.Fatal(err)
	}
	return t
}

func (t *trainer) withBuiltins(maxSim func(t *trainer, q, d *gorgonia.Node) *gorgonia.Node) *trainer {
	encode := func(name string, tokens int) *gorgonia.Node {
		ids := make([]int, stepB*tokens)
		for i := range ids {
			ids[i] = t.rng.IntN(stepV)
		}
		x := t.must(gorgonia.ByIndices(t.table, t.input(name, tensor.New(tensor.WithShape(len(ids)), tensor.WithBacking(ids))), 0))
		y := t.must(gorgonia.Mul(x, t.w))
		norm := t.must(gorgonia.Sqrt(t.must(gorgonia.Sum(t.must(gorgonia.Square(y)), 1))))
		return t.must(gorgonia.BroadcastHadamardDiv(y, norm, nil, []byte{1}))
	}
	scores := maxSim(t, encode("qids", stepTq), encode("dids", stepTd))
	logits := t.must(gorgonia.Div(scores, gorgonia.NewConstant(float32(stepTemp))))
	own := make([]float32, stepB*stepB)
	for i := range stepB {
		own[i*stepB+i] = -1.0 / stepB
	}
	labels := t.input("labels", tensor.New(tensor.WithShape(stepB, stepB), tensor.WithBacking(own)))
	loss := t.must(gorgonia.Sum(t.must(gorgonia.HadamardProd(t.must(gorgonia.LogSoftMax(logits)), labels))))
	if _, err := gorgonia.Grad(loss, t.table, t.w); err != nil {
		t.t.Fatal(err)
	}
	t.params = []gorgonia.ValueGrad{t.table, t.w}
	t.solver = gorgonia.NewAdamSolver()
	return t
}

// fused is MaxSim of token rows by this module.
func fused(t *trainer, q, d *gorgonia.Node) *gorgonia.Node {
	q = t.must(gorgonia.Reshape(q, tensor.Shape{stepB, stepTq, stepDim}))
	d = t.must(gorgonia.Reshape(d, tensor.Shape{stepB, stepTd, stepDim}))
	return t.must(maxsim.InBatch(q, d, maxsim.Config{}))
}

// composed is MaxSim of token rows by Mul, Max and Sum.
func composed(t *trainer, q, d *gorgonia.Node) *gorgonia.Node {
	s := t.must(gorgonia.Mul(q, t.must(gorgonia.Transpose(d, 1, 0))))
	s = t.must(gorgonia.Reshape(s, tensor.Shape{stepB, stepTq, stepB, stepTd}))
	return t.must(gorgonia.Sum(t.must(gorgonia.Max(s, 3)), 1))
}

func (t *trainer) bench(b *testing.B) {
	vm := gorgonia.NewTapeMachine(t.g)
	defer vm.Close()
	b.ReportAllocs()
	for b.Loop() {
		t.step(vm)
	}
}

func (t *trainer) step(vm gorgonia.VM) {
	if err := vm.RunAll(); err != nil {
		t.t.Fatal(err)
	}
	if err := t.solver.Step(t.params); err != nil {
		t.t.Fatal(err)
	}
	vm.Reset()
}

// TestAdamZeroesLookups: with dual values a machine adds gradients up over runs, so a step has to set those of the
// look-ups to 0 as it does those of weights.
func TestAdamZeroesLookups(t *testing.T) {
	tr := newTrainer(t).withColbert()
	emb := tr.params[0].(*colbert.Embedding)
	vm := gorgonia.NewTapeMachine(tr.g, gorgonia.BindDualValues(append(emb.Lookups(), tr.w)...))
	defer vm.Close()
	tr.step(vm)
	for _, p := range tr.params {
		g, err := p.Grad()
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(g.Data().([]float32), func(x float32) bool { return x != 0 }) {
			t.Errorf("gradient of %T is not 0 after a step", p)
		}
	}
}

// TestStepSameBits: two steps at the size of the benchmark leave the same weights on any number of cores.
func TestStepSameBits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	var want [][]float32
	for _, procs := range []int{1, 2, 7} {
		old := runtime.GOMAXPROCS(procs)
		tr := newTrainer(t).withColbert()
		vm := gorgonia.NewTapeMachine(tr.g)
		tr.step(vm)
		tr.step(vm)
		vm.Close()
		runtime.GOMAXPROCS(old)
		got := [][]float32{tr.table.Value().Data().([]float32), tr.w.Value().Data().([]float32)}
		if want == nil {
			want = got
		}
		for i := range want {
			if !slices.Equal(got[i], want[i]) {
				t.Errorf("GOMAXPROCS %d: parameter %d has other bits than with 1", procs, i)
			}
		}
	}
}
