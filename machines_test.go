package maxsim_test

import (
	"errors"
	"io"
	"log"
	"math"
	"runtime"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/casefile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

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

// Steps of Adam on one graph lower a loss, on both machines by the same amounts: gradients arrive in the dual values and
// are zeroed by the solver. A LispMachine is made for every step, because its Reset computes nothing anew.
func TestTrainingLowersTheLoss(t *testing.T) {
	losses := map[string][]float64{}
	for _, machine := range machines {
		losses[machine] = trainingLosses(t, machine)
		if l := losses[machine]; !(l[len(l)-1] < l[0]-1) {
			t.Errorf("%s: losses %v do not fall", machine, l)
		}
	}
	for step, want := range losses[machines[0]] {
		if got := losses[machines[1]][step]; math.Abs(got-want) > 1e-9 {
			t.Errorf("step %d: loss %v on a %s, %v on a %s", step, got, machines[1], want, machines[0])
		}
	}
}

// TestLispStepsThroughReshape: on a LispMachine Reshape gives its own gradient to what it read, in that shape. The second
// step used to fail when MaxSim added to it.
func TestLispStepsThroughReshape(t *testing.T) {
	for _, reshaped := range []bool{false, true} {
		g := gorgonia.NewGraph()
		rows := gorgonia.NodeFromAny(g, dense([]float64{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2), gorgonia.WithName("rows"))
		q := gorgonia.Must(gorgonia.Reshape(gorgonia.Must(gorgonia.Tanh(rows)), []int{2, 2, 2}))
		scores, err := maxsim.InBatch(q, gorgonia.NodeFromAny(g, dense([]float64{3, -1, 2, 5, 1, 1}, 3, 1, 2), gorgonia.WithName("d")), maxsim.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if reshaped {
			scores = gorgonia.Must(gorgonia.Reshape(scores, []int{6}))
		}
		gorgonia.Must(gorgonia.Sum(scores))
		var first []float64
		for step := range 3 {
			vm := gorgonia.NewLispMachine(g)
			if err := vm.RunAll(); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			vm.Close()
			grad, err := rows.Grad()
			if err != nil {
				t.Fatal(err)
			}
			if step == 0 {
				first = slices.Clone(elements[float64](grad))
			} else if got := elements[float64](grad); !slices.Equal(got, first) {
				t.Errorf("step %d: gradient %v, of the first step %v", step, got, first)
			}
			grad.(gorgonia.Zeroer).Zero()
		}
	}
}

// trainingLosses returns the losses of 30 steps.
func trainingLosses(t *testing.T, machine string) (losses []float64) {
	c := contractCase()
	p := newGradProblem(t, c)
	g, err := newGraph(c.setting, inputsOf[float64](c, p, machine))
	if err != nil {
		t.Fatal(err)
	}
	newVM := func() gorgonia.VM { return gorgonia.NewLispMachine(g.ExprGraph) }
	if machine == "TapeMachine" {
		if _, err := gorgonia.Grad(g.loss, g.q, g.d); err != nil {
			t.Fatal(err)
		}
		vm := gorgonia.NewTapeMachine(g.ExprGraph, gorgonia.BindDualValues(g.q, g.d))
		defer vm.Close()
		newVM = func() gorgonia.VM { vm.Reset(); return vm }
	}
	solver := gorgonia.NewAdamSolver(gorgonia.WithLearnRate(0.05))
	for range 30 {
		vm := newVM()
		if err := vm.RunAll(); err != nil {
			t.Fatal(err)
		}
		losses = append(losses, scalar(g.loss.Value()))
		if err := solver.Step([]gorgonia.ValueGrad{g.q, g.d}); err != nil {
			t.Fatal(err)
		}
	}
	return losses
}
