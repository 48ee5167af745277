package maxsim_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
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

// tokenNodes are the inputs of a graph with many MaxSim nodes.
type tokenNodes struct {
	*gorgonia.ExprGraph
	q, d, maskQ, maskD, otherD *gorgonia.Node
}

func newTokenNodes() tokenNodes {
	rng := rand.New(rand.NewPCG(1, 1))
	n := tokenNodes{ExprGraph: gorgonia.NewGraph()}
	in := func(name string, x *tensor.Dense) *gorgonia.Node {
		return gorgonia.NodeFromAny(n.ExprGraph, x, gorgonia.WithName(name))
	}
	mask := func(tokens, drop int) *tensor.Dense {
		valid := make([]bool, 3*tokens)
		for at := range valid {
			valid[at] = at%drop != 1
		}
		return dense(valid, 3, tokens)
	}
	n.q, n.d = in("q", dense(normal(rng, 60), 3, 4, 5)), in("d", dense(normal(rng, 90), 3, 6, 5))
	n.maskQ, n.maskD, n.otherD = in("maskQ", mask(4, 3)), in("maskD", mask(6, 4)), in("otherD", mask(6, 2))
	return n
}

// Gorgonia merges equal nodes. Nodes of the same tokens with different settings are not equal, and compute in one graph
// what each computes alone.
func TestNodesOfTheSameTokensStayApart(t *testing.T) {
	builders := map[string]func(n tokenNodes) (*gorgonia.Node, error){
		"in batch": func(n tokenNodes) (*gorgonia.Node, error) { return maxsim.InBatch(n.q, n.d, maxsim.Config{}) },
		"mean":     func(n tokenNodes) (*gorgonia.Node, error) { return maxsim.InBatch(n.q, n.d, maxsim.Config{Mean: true}) },
		"query mask": func(n tokenNodes) (*gorgonia.Node, error) {
			return maxsim.InBatch(n.q, n.d, maxsim.Config{QueryMask: n.maskQ})
		},
		"document mask": func(n tokenNodes) (*gorgonia.Node, error) {
			return maxsim.InBatch(n.q, n.d, maxsim.Config{DocMask: n.maskD})
		},
		"another mask": func(n tokenNodes) (*gorgonia.Node, error) {
			return maxsim.InBatch(n.q, n.d, maxsim.Config{DocMask: n.otherD})
		},
		"frozen queries": func(n tokenNodes) (*gorgonia.Node, error) {
			return maxsim.InBatch(n.q, n.d, maxsim.Config{FrozenQueries: true})
		},
		"frozen docs": func(n tokenNodes) (*gorgonia.Node, error) {
			return maxsim.InBatch(n.q, n.d, maxsim.Config{FrozenDocs: true})
		},
		"paired":      func(n tokenNodes) (*gorgonia.Node, error) { return maxsim.Paired(n.q, n.d, maxsim.Config{}) },
		"candidates":  func(n tokenNodes) (*gorgonia.Node, error) { return maxsim.Candidates(n.q, n.d, 1, maxsim.Config{}) },
		"swapped":     func(n tokenNodes) (*gorgonia.Node, error) { return maxsim.InBatch(n.d, n.q, maxsim.Config{}) },
		"with itself": func(n tokenNodes) (*gorgonia.Node, error) { return maxsim.InBatch(n.q, n.q, maxsim.Config{}) },
	}
	run := func(names ...string) map[string][]float64 {
		n := newTokenNodes()
		read := map[string]*gorgonia.Value{}
		nodes := map[*gorgonia.Node]string{}
		for _, name := range names {
			node, err := builders[name](n)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if other, ok := nodes[node]; ok {
				t.Errorf("%s and %s are one node", name, other)
			}
			if again, err := builders[name](n); err != nil || again != node {
				t.Errorf("%s: a second, equal node is not the same (%v)", name, err)
			}
			nodes[node], read[name] = name, new(gorgonia.Value)
			gorgonia.Read(node, read[name])
		}
		vm := gorgonia.NewTapeMachine(n.ExprGraph)
		defer vm.Close()
		if err := vm.RunAll(); err != nil {
			t.Fatal(err)
		}
		out := map[string][]float64{}
		for name, v := range read {
			out[name] = elements[float64](*v)
		}
		return out
	}
	together := run(slices.Sorted(maps.Keys(builders))...)
	for name, got := range together {
		if want := run(name)[name]; !slices.Equal(got, want) {
			t.Errorf("%s: %v among other nodes, %v alone", name, got, want)
		}
	}
}

// A frozen side has no gradient node; the other side's gradient keeps its bits.
func TestFrozenSides(t *testing.T) {
	c := contractCase()
	p := newGradProblem(t, c)
	want := gradients[float64](t, c, p, machines[0])
	for _, frozen := range []struct {
		queries, docs bool
	}{{true, false}, {false, true}} {
		for _, machine := range machines {
			t.Run(fmt.Sprintf("%+v/%s", frozen, machine), func(t *testing.T) {
				s := c.setting
				s.cfg.FrozenQueries, s.cfg.FrozenDocs = frozen.queries, frozen.docs
				g, err := newGraph(s, inputsOf[float64](c, p, machine))
				if err != nil {
					t.Fatal(err)
				}
				wrt, wantGrad, role := g.d, want.dd, ".dq"
				if frozen.docs {
					wrt, wantGrad, role = g.q, want.dq, ".dd"
				}
				var grad gorgonia.Value
				if machine == "LispMachine" {
					vm := gorgonia.NewLispMachine(g.ExprGraph)
					defer vm.Close()
					if err := vm.RunAll(); err != nil {
						t.Fatal(err)
					}
					if grad, err = wrt.Grad(); err != nil {
						t.Fatal(err)
					}
				} else {
					grads, err := gorgonia.Grad(g.loss, wrt)
					if err != nil {
						t.Fatal(err)
					}
					for _, n := range g.AllNodes() {
						if op := n.Op(); op != nil && strings.HasSuffix(op.String(), role) {
							t.Errorf("the frozen side has a gradient node %v", n)
						}
					}
					vm := gorgonia.NewTapeMachine(g.ExprGraph)
					defer vm.Close()
					if err := vm.RunAll(); err != nil {
						t.Fatal(err)
					}
					grad = grads[0].Value()
				}
				if at := firstDifference(elements[float64](grad), wantGrad); at >= 0 {
					t.Errorf("element %d of the gradient differs", at)
				}
			})
		}
	}
}

// tapeNode is the node of a graph whose value holds the argmax.
func tapeNode(t *testing.T, g *graph) *gorgonia.Node {
	t.Helper()
	for _, n := range g.AllNodes() {
		if op := n.Op(); op != nil && strings.HasSuffix(op.String(), ".tape") {
			return n
		}
	}
	t.Fatal("no tape node")
	return nil
}

func TestInferenceStoresNoArgmax(t *testing.T) {
	c := contractCase()
	c.setting.grads = false
	p := newGradProblem(t, c)
	for _, want := range []bool{false, true} {
		for _, machine := range machines {
			t.Run(fmt.Sprintf("argmax=%t/%s", want, machine), func(t *testing.T) {
				g, err := newGraph(c.setting, inputsOf[float64](c, p, machine))
				if err != nil {
					t.Fatal(err)
				}
				stored := 1 // an int32 that stands for nothing
				if want {
					argmax, err := maxsim.Argmax(g.scores)
					if err != nil {
						t.Fatal(err)
					}
					var v gorgonia.Value
					gorgonia.Read(argmax, &v)
					stored = p.batch.TapeLen()
				}
				vm := forwardMachine(g.ExprGraph, machine)
				defer vm.Close()
				if err := vm.RunAll(); err != nil {
					t.Fatal(err)
				}
				if n := tapeNode(t, g).Value().Size(); n != stored {
					t.Errorf("the tape has %d entries, want %d", n, stored)
				}
				if _, err := maxsim.LastArgmax(g.scores); (err == nil) != want {
					t.Errorf("LastArgmax: %v", err)
				}
			})
		}
	}
}

func forwardMachine(g *gorgonia.ExprGraph, machine string) gorgonia.VM {
	if machine == "LispMachine" {
		return gorgonia.NewLispMachine(g, gorgonia.ExecuteFwdOnly())
	}
	return gorgonia.NewTapeMachine(g)
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

// Machines that trace, log or watch for NaN look at every value, the tape included.
func TestWatchedMachines(t *testing.T) {
	c := contractCase()
	p := newGradProblem(t, c)
	quiet := log.New(io.Discard, "", 0)
	for name, options := range map[string][]gorgonia.VMOpt{
		"trace":     {gorgonia.TraceExec()},
		"NaN":       {gorgonia.WithNaNWatch()},
		"infinity":  {gorgonia.WithInfWatch()},
		"log":       {gorgonia.WithLogger(quiet), gorgonia.WithWatchlist(), gorgonia.WithValueFmt("%+1.1s")},
		"dual":      {gorgonia.BindDualValues()},
		"eval mode": {gorgonia.EvalMode()},
	} {
		t.Run(name, func(t *testing.T) {
			g, dq, dd := mustGrad(t, c.setting, inputsOf[float64](c, p, machines[0]))
			vm := gorgonia.NewTapeMachine(g.ExprGraph, options...)
			defer vm.Close()
			for range 2 {
				vm.Reset()
				if err := vm.RunAll(); err != nil {
					t.Fatal(err)
				}
				closedForm(t, p, outputs[float64]{dq: elements[float64](dq.Value()), dd: elements[float64](dd.Value())}, new(tally))
			}
		})
	}
}

// After an error the same machine runs again on good inputs.
func TestRunAfterAnError(t *testing.T) {
	for _, machine := range machines {
		t.Run(machine, func(t *testing.T) {
			c := gradCase{name: "packed", setting: setting{layout: casefile.Packed, grads: true}, qShape: []int{7, 3}, dShape: []int{9, 3},
				cuQ: []int{0, 3, 6}, cuD: []int{0, 4, 4, 9}}
			p := newGradProblem(t, c)
			good := inputsOf[float64](c, p, machine)
			prog, err := compile[float64](machine, c.setting, good)
			if err != nil {
				t.Fatal(err)
			}
			defer prog.close()
			for range 2 {
				bad := good
				bad.cuD = offsets([]int{0, 5, 4, 9})
				if _, err := prog.step(bad); !errors.Is(maxsim.Cause(err), maxsim.ErrOffsets) {
					t.Fatalf("error %v, want one that is ErrOffsets", err)
				}
				got, err := prog.step(good)
				if err != nil {
					t.Fatal(err)
				}
				got.argmax = nil // by rows in this layout; TestCases compares it
				checkProblem(t, p, got)
			}
		})
	}
}

func TestMaskTypes(t *testing.T) {
	c := contractCase()
	p := newGradProblem(t, c)
	for _, mask := range []func([]bool, ...int) *tensor.Dense{
		numbers[int], numbers[int8], numbers[int16], numbers[int32], numbers[int64],
		numbers[uint], numbers[uint8], numbers[uint16], numbers[uint32], numbers[uint64],
		numbers[float32], numbers[float64], dense[bool],
	} {
		v := inputsOf[float64](c, p, machines[0])
		v.maskQ, v.maskD = mask(p.maskQ, c.qShape[:2]...), mask(p.maskD, c.dShape[:2]...)
		for _, machine := range machines {
			t.Run(fmt.Sprintf("%v/%s", v.maskQ.Dtype(), machine), func(t *testing.T) {
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
}

func numbers[T int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | uint64 | float32 | float64](valid []bool, shape ...int) *tensor.Dense {
	out := make([]T, len(valid))
	for at, v := range valid {
		if v {
			out[at] = 1
		}
	}
	return dense(out, shape...)
}

// The bits of scores, argmax and gradients do not depend on the number of threads, and those of a pair not on what else
// is in the graph.
func TestBitsDoNotDependOnThreads(t *testing.T) {
	c := gradCase{name: "threads", setting: setting{layout: casefile.AllPairs, grads: true}, qShape: []int{9, 33, 40}, dShape: []int{13, 70, 40},
		maskQ: func(s, t int) bool { return t < 33-s }, maskD: func(s, t int) bool { return (s*7+t)%5 != 3 }}
	p := &gradProblem{batch: &layout.Batch{Dim: 40}}
	p.batch.Q, p.maskQ = sequencesOf(c.qShape, nil, c.maskQ)
	p.batch.D, p.maskD = sequencesOf(c.dShape, nil, c.maskD)
	p.q, p.d, p.ds = make([]float64, 9*33*40), make([]float64, 13*70*40), make([]float64, 9*13)
	p = p.withNumbers(1)
	for _, machine := range machines {
		t.Run(machine, func(t *testing.T) {
			var first outputs[float32]
			for n, threads := range []int{1, 2, 5, runtime.GOMAXPROCS(0)} {
				was := runtime.GOMAXPROCS(threads)
				got := gradients[float32](t, c, p, machine)
				runtime.GOMAXPROCS(was)
				if n == 0 {
					first = got
				}
				checkSameBits(t, got, first)
			}
		})
	}
}

// A few steps of Adam lower a loss on one graph, machine and solver: gradients arrive in the dual values and are zeroed
// by the solver.
func TestTrainingLowersTheLoss(t *testing.T) {
	c := contractCase()
	p := newGradProblem(t, c)
	g, _, _ := mustGrad(t, c.setting, inputsOf[float64](c, p, machines[0]))
	var loss gorgonia.Value
	gorgonia.Read(g.loss, &loss)
	vm := gorgonia.NewTapeMachine(g.ExprGraph, gorgonia.BindDualValues(g.q, g.d))
	defer vm.Close()
	solver := gorgonia.NewAdamSolver(gorgonia.WithLearnRate(0.05))
	var losses []float64
	for range 30 {
		if err := vm.RunAll(); err != nil {
			t.Fatal(err)
		}
		losses = append(losses, scalar(loss))
		if err := solver.Step([]gorgonia.ValueGrad{g.q, g.d}); err != nil {
			t.Fatal(err)
		}
		vm.Reset()
	}
	if last := losses[len(losses)-1]; !(last < losses[0]-1) {
		t.Errorf("losses %v do not fall", losses)
	}
}
