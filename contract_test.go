package maxsim_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/casefile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/oracle"
)

// The tests of this file hold the ops to what Gorgonia may do with a graph: run it again, run a part of it, copy it,
// merge its nodes, watch it.

// contractCase is the graph that they use: rectangular, holes in both masks.
func contractCase() gradCase {
	return gradCase{
		name: "contract", setting: setting{layout: casefile.AllPairs, grads: true},
		qShape: []int{3, 4, 5}, dShape: []int{4, 6, 5},
		maskQ: func(s, t int) bool { return (s+t)%4 != 1 }, maskD: func(s, t int) bool { return (2*s+t)%4 != 2 },
	}
}

// withNumbers returns a problem of the same shapes and masks with other numbers.
func (p *gradProblem) withNumbers(seed uint64) *gradProblem {
	other := *p
	rng := rand.New(rand.NewPCG(seed, 2))
	other.q, other.d, other.ds = normal(rng, len(p.q)), normal(rng, len(p.d)), normal(rng, len(p.ds))
	other.dsSum = other.ds
	other.argmax = oracle.Forward[float64](p.batch, other.q, other.d).Argmax
	return &other
}

// checkProblem holds scores and gradients to the oracle.
func checkProblem[T layout.Float](t *testing.T, p *gradProblem, got outputs[T]) {
	t.Helper()
	r := oracle.Forward[float64](p.batch, p.q, p.d)
	for at, want := range r.Scores {
		// Sums of a few dozen products: 64 roundings of 2⁻⁵³ or 2⁻²⁴.
		if diff := math.Abs(float64(got.scores[at]) - want); !(diff <= 64*unitOf[T]()*r.Scale[at]) {
			t.Errorf("score %d is %.9g, want %.9g", at, got.scores[at], want)
		}
	}
	if got.argmax != nil && !slices.Equal(got.argmax, p.argmax) {
		t.Errorf("argmax is %v, want %v", got.argmax, p.argmax)
	}
	if got.dq != nil {
		closedForm(t, p, got, new(tally))
	}
}

func unitOf[T layout.Float]() float64 {
	if _, ok := any(T(0)).(float32); ok {
		return 0x1p-24
	}
	return 0x1p-53
}

// mustGrad builds the graph of a case with gradients by q and d.
func mustGrad(t *testing.T, s setting, v values) (g *graph, dq, dd *gorgonia.Node) {
	t.Helper()
	s.grads = true
	g, err := newGraph(s, v)
	if err != nil {
		t.Fatal(err)
	}
	grads, err := gorgonia.Grad(g.loss, g.q, g.d)
	if err != nil {
		t.Fatal(err)
	}
	return g, grads[0], grads[1]
}

func TestEveryRunSeesItsOwnInputs(t *testing.T) {
	c := contractCase()
	p := newGradProblem(t, c)
	for _, machine := range machines {
		t.Run(machine, func(t *testing.T) {
			prog, err := compile[float64](machine, c.setting, inputsOf[float64](c, p, machine))
			if err != nil {
				t.Fatal(err)
			}
			defer prog.close()
			for seed := range uint64(5) {
				q := p.withNumbers(seed)
				got, err := prog.step(inputsOf[float64](c, q, machine))
				if err != nil {
					t.Fatal(err)
				}
				checkProblem(t, q, got)
			}
		})
	}
}

// A program whose outputs are gradients only leaves out every node that they do not need. The argmax must not come from
// a run of something else.
func TestProgramOfGradientsOnly(t *testing.T) {
	c := contractCase()
	p := newGradProblem(t, c)
	g, dq, dd := mustGrad(t, c.setting, inputsOf[float64](c, p, machines[0]))
	whole := gorgonia.NewTapeMachine(g.ExprGraph)
	defer whole.Close()
	if err := whole.RunAll(); err != nil {
		t.Fatal(err)
	}
	inputs := gorgonia.Nodes{g.q, g.d, g.maskQ, g.maskD, g.upstream}
	program, locations, err := gorgonia.CompileFunction(g.ExprGraph, inputs, gorgonia.Nodes{dq, dd})
	if err != nil {
		t.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g.ExprGraph, gorgonia.WithPrecompiled(program, locations))
	defer vm.Close()
	for seed := range uint64(3) {
		q := p.withNumbers(seed)
		if err := g.let(inputsOf[float64](c, q, machines[0])); err != nil {
			t.Fatal(err)
		}
		vm.Reset()
		if err := vm.RunAll(); err != nil {
			t.Fatal(err)
		}
		closedForm(t, q, outputs[float64]{dq: elements[float64](dq.Value()), dd: elements[float64](dd.Value())}, new(tally))
	}
}

func TestClonedGraphsRunAtOnce(t *testing.T) {
	c := contractCase()
	p := newGradProblem(t, c)
	g, dq, dd := mustGrad(t, c.setting, inputsOf[float32](c, p, machines[0]))
	at := func(n *gorgonia.Node) int { return slices.Index(g.AllNodes(), n) }
	var wait sync.WaitGroup
	for seed := range uint64(4) {
		clone := g.ExprGraph.Clone().(*gorgonia.ExprGraph)
		node := func(n *gorgonia.Node) *gorgonia.Node { return clone.AllNodes()[at(n)] }
		copied := &graph{ExprGraph: clone, q: node(g.q), d: node(g.d), maskQ: node(g.maskQ), maskD: node(g.maskD), upstream: node(g.upstream)}
		dq, dd := node(dq), node(dd)
		wait.Go(func() {
			vm := gorgonia.NewTapeMachine(clone)
			defer vm.Close()
			for run := range uint64(5) {
				q := p.withNumbers(10*seed + run)
				if err := copied.let(inputsOf[float32](c, q, machines[0])); err != nil {
					t.Error(err)
					return
				}
				vm.Reset()
				if err := vm.RunAll(); err != nil {
					t.Error(err)
					return
				}
				closedForm(t, q, outputs[float32]{dq: elements[float32](dq.Value()), dd: elements[float32](dd.Value())}, new(tally))
			}
		})
	}
	wait.Wait()
}

// Data-parallel training: every goroutine has its own graph and machine, the memory of the inputs is shared. (Not the
// tensor headers: a new machine writes its engine into them.)
func TestGraphsThatShareTensorsRunAtOnce(t *testing.T) {
	c := contractCase()
	p := newGradProblem(t, c)
	for _, machine := range machines {
		t.Run(machine, func(t *testing.T) {
			shared := inputsOf[float32](c, p, machine)
			var wait sync.WaitGroup
			for range 4 {
				wait.Go(func() {
					own := shared.withOwnHeaders()
					prog, err := compile[float32](machine, c.setting, own)
					if err != nil {
						t.Error(err)
						return
					}
					defer prog.close()
					for range 5 {
						got, err := prog.step(own)
						if err != nil {
							t.Error(err)
							return
						}
						checkProblem(t, p, got)
					}
				})
			}
			wait.Wait()
		})
	}
}

// withOwnHeaders returns the same inputs in new tensors over the same memory.
func (v values) withOwnHeaders() values {
	for _, x := range []**tensor.Dense{&v.q, &v.d, &v.maskQ, &v.maskD, &v.upstream} {
		*x = (*x).ShallowClone()
	}
	return v
}

// Read must give the scores although later ops may write into the memory of their value.
func TestReadGivesTheScoresWhateverComesAfter(t *testing.T) {
	c := contractCase()
	p := newGradProblem(t, c)
	g, err := newGraph(c.setting, inputsOf[float64](c, p, machines[0]))
	if err != nil {
		t.Fatal(err)
	}
	var scores gorgonia.Value
	gorgonia.Read(g.scores, &scores)
	two := gorgonia.NewConstant(2.0)
	x := gorgonia.Must(gorgonia.HadamardProd(g.scores, two))
	x = gorgonia.Must(gorgonia.Add(x, g.scores))
	x = gorgonia.Must(gorgonia.Square(gorgonia.Must(gorgonia.Neg(x))))
	loss := gorgonia.Must(gorgonia.Add(g.loss, gorgonia.Must(gorgonia.Sum(x))))
	grads, err := gorgonia.Grad(loss, g.q, g.d)
	if err != nil {
		t.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g.ExprGraph)
	defer vm.Close()
	for range 2 {
		vm.Reset()
		if err := vm.RunAll(); err != nil {
			t.Fatal(err)
		}
		// loss = Σ ds·s + (3s)²
		r := oracle.Forward[float64](p.batch, p.q, p.d)
		q := *p
		q.dsSum = append([]float64(nil), p.ds...)
		for at, s := range r.Scores {
			q.dsSum[at] += 18 * s
		}
		got := outputs[float64]{scores: elements[float64](scores), dq: elements[float64](grads[0].Value()), dd: elements[float64](grads[1].Value())}
		checkProblem(t, &q, got)
	}
}

// GradCache-style training differentiates scores by a gradient that comes in as a value.
func TestBackpropagateFromAGradientNode(t *testing.T) {
	c := contractCase()
	c.setting.grads = false
	p := newGradProblem(t, c)
	g, err := newGraph(c.setting, inputsOf[float64](c, p, machines[0]))
	if err != nil {
		t.Fatal(err)
	}
	grads, err := gorgonia.Backpropagate(gorgonia.Nodes{g.scores}, gorgonia.Nodes{g.upstream}, gorgonia.Nodes{g.q, g.d})
	if err != nil {
		t.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g.ExprGraph)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	closedForm(t, p, outputs[float64]{dq: elements[float64](grads[0].Value()), dd: elements[float64](grads[1].Value())}, new(tally))
}

func TestColumnMajorInputs(t *testing.T) {
	c := contractCase()
	p := newGradProblem(t, c)
	for _, machine := range machines {
		t.Run(machine, func(t *testing.T) {
			v := inputsOf[float64](c, p, machine)
			v.q, v.d, v.maskQ, v.maskD = columnMajor(t, v.q), columnMajor(t, v.d), columnMajor(t, v.maskQ), columnMajor(t, v.maskD)
			prog, err := compile[float64](machine, c.setting, v)
			if err != nil {
				t.Fatal(err)
			}
			defer prog.close()
			got, err := prog.step(v)
			if err != nil {
				t.Fatal(err)
			}
			checkProblem(t, p, got)
		})
	}
}

// columnMajor is the same tensor in Fortran's order.
func columnMajor(t *testing.T, x *tensor.Dense) *tensor.Dense {
	t.Helper()
	out := tensor.New(tensor.WithShape(x.Shape()...), tensor.Of(x.Dtype()), tensor.AsFortran(nil))
	it := x.Iterator()
	for _, err := it.Start(); err == nil; _, err = it.Next() {
		v, err := x.At(it.Coord()...)
		if err != nil {
			t.Fatal(err)
		}
		if err := out.SetAt(v, it.Coord()...); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// Scores that are used transposed get their gradient as a transposed view.
func TestUpstreamGradientOfATransposedView(t *testing.T) {
	c := contractCase()
	p := newGradProblem(t, c)
	c.setting.loss = func(g *graph) (*gorgonia.Node, error) {
		scores, err := gorgonia.Transpose(g.scores)
		if err != nil {
			return nil, err
		}
		weights, err := gorgonia.Transpose(g.upstream)
		if err != nil {
			return nil, err
		}
		return weightedSum(&graph{scores: scores, upstream: weights})
	}
	for _, machine := range machines {
		t.Run(machine, func(t *testing.T) {
			closedForm(t, p, gradients[float64](t, c, p, machine), new(tally))
		})
	}
}
