package maxsim_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
)

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
					if device, err := testDevice(); err != nil {
						t.Fatal(err)
					} else if device == nil { // a GPU keeps the argmax in its own memory
						stored = p.batch.TapeLen()
					}
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

// A run is one forward pass and one backward pass for each side that is not frozen, however many nodes read the tape.
func TestPassesOfARun(t *testing.T) {
	c := contractCase()
	p := newGradProblem(t, c)
	for _, frozen := range []bool{false, true} {
		profile := new(maxsim.Profile)
		c.setting.cfg.Profile, c.setting.cfg.FrozenDocs = profile, frozen
		v := inputsOf[float64](c, p, machines[0])
		g, err := newGraph(c.setting, v)
		if err != nil {
			t.Fatal(err)
		}
		var argmax gorgonia.Value
		gorgonia.Read(gorgonia.Must(maxsim.Argmax(g.scores)), &argmax)
		wrt, backward := gorgonia.Nodes{g.q, g.d}, 2
		if frozen {
			wrt, backward = wrt[:1], 1
		}
		if _, err := gorgonia.Grad(g.loss, wrt...); err != nil {
			t.Fatal(err)
		}
		vm := gorgonia.NewTapeMachine(g.ExprGraph)
		runs := 0
		var forwardTime, backwardTime time.Duration
		for runs < 3 || (forwardTime == 0 || backwardTime == 0) && runs < 10000 { // some clocks tick slowly
			vm.Reset()
			if err := vm.RunAll(); err != nil {
				t.Fatal(err)
			}
			runs++
			var forwards, backwards int
			forwards, forwardTime = profile.Forward()
			backwards, backwardTime = profile.Backward()
			if forwards != runs || backwards != runs*backward {
				t.Fatalf("frozen=%t: %d forward and %d backward passes in %d runs", frozen, forwards, backwards, runs)
			}
		}
		vm.Close()
		if forwardTime <= 0 || backwardTime <= 0 {
			t.Errorf("frozen=%t: %d runs took %v forward and %v backward", frozen, runs, forwardTime, backwardTime)
		}
		profile.Reset()
		if n, took := profile.Forward(); n != 0 || took != 0 {
			t.Errorf("after Reset: %d passes, %v", n, took)
		}
	}
}
