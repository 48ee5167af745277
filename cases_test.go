package maxsim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/colbert"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/casefile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/oracle"
)

// TestCases runs every case of testdata/cases through the graph API: one sub-test per case, named like it, and below
// it one per engine, dtype and machine.
//
// The environment variable MAXSIM_CASES names another folder that is read in its place, sub-folders included. Cases
// with the option "heavy" need many GB and run only with MAXSIM_HEAVY=1.
func TestCases(t *testing.T) {
	dir := os.Getenv("MAXSIM_CASES")
	if dir == "" {
		dir = filepath.Join("testdata", "cases")
	}
	cases, err := casefile.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if c.Options.Heavy && os.Getenv("MAXSIM_HEAVY") != "1" {
				t.Skip("needs many GB; MAXSIM_HEAVY=1 runs it")
			}
			for _, e := range engines() {
				for _, machine := range machines {
					if c.Options.Heavy {
						if machine == "LispMachine" {
							continue // it keeps several copies of every gradient
						}
						freeMachines()
					}
					if c.Options.DType != "float64" {
						t.Run(e.name+"/float32/"+machine, func(t *testing.T) { runCase[float32](t, c, e, machine) })
					}
					if !c.Options.Heavy {
						t.Run(e.name+"/float64/"+machine, func(t *testing.T) { runCase[float64](t, c, e, machine) })
					}
				}
			}
		})
	}
}

// freeMachines gives back the memory of the machines before. A TapeMachine has a finalizer, so what it holds is free
// only at the second collection after the finalizer has run.
func freeMachines() {
	runtime.GC()
	time.Sleep(100 * time.Millisecond)
	debug.FreeOSMemory()
}

func runCase[T layout.Float](t *testing.T, c *casefile.Case, e engine, machine string) {
	err := checkCase[T](t, c, e, machine)
	switch {
	case c.ErrorReason != "" && err == nil:
		t.Errorf("no error, although %s", c.ErrorReason)
	case c.ErrorReason != "":
		t.Logf("error, as it should be: %v", err)
	case c.Options.AllowError && err != nil:
		t.Logf("an error is allowed: %v", err)
	case err != nil:
		t.Error(err)
	}
}

// checkCase runs all steps of a case on one graph. It returns errors of the graph and reports wrong values itself.
func checkCase[T layout.Float](t *testing.T, c *casefile.Case, e engine, machine string) error {
	if c.Options.Heavy {
		defer debug.SetGCPercent(debug.SetGCPercent(10)) // the heap must not double here
	}
	s := setting{layout: c.Layout, group: c.Options.Candidates, loss: lossOf[T](c.Options.Loss)}
	s.cfg.Device = e.use(t)
	s.cpu = s.cfg.Device == nil
	for _, step := range c.Steps {
		s.grads = s.grads || step.Upstream != nil
		s.mean = s.mean || step.Expect.MeanScores != nil
	}
	p, err := compile[T](machine, s, valuesOf[T](c, &c.Steps[0], machine))
	if err != nil {
		return err
	}
	defer p.close()
	for n := range c.Steps {
		step := &c.Steps[n]
		v := valuesOf[T](c, step, machine)
		got, err := p.step(v)
		if err != nil {
			return fmt.Errorf("step %d: %w", n, err)
		}
		if c.ErrorReason != "" {
			continue
		}
		checkStep(t, c, step, got)
		for range c.Options.Repeat - 1 {
			again, err := p.step(v)
			if err != nil {
				return fmt.Errorf("step %d again: %w", n, err)
			}
			checkSameBits(t, again, got)
		}
	}
	return nil
}

// valuesOf makes the inputs of a step.
func valuesOf[T layout.Float](c *casefile.Case, s *casefile.Step, machine string) values {
	v := values{q: stored[T](s.Q, c.Options.Storage["q"]), d: stored[T](s.D, c.Options.Storage["d"])}
	if c.Layout == casefile.Packed {
		v.cuQ, v.cuD = offsets(s.CuQ), offsets(s.CuD)
	}
	if s.MaskQ != nil {
		v.maskQ = maskOf[T](s.MaskQ.Bools(), s.MaskQ.Shape, machine)
	}
	if s.MaskD != nil {
		v.maskD = maskOf[T](s.MaskD.Bools(), s.MaskD.Shape, machine)
	}
	if s.Upstream != nil && c.Options.Loss == nil { // a loss has its own derivative by the scores
		v.upstream = dense(casefile.Values[T](s.Upstream), s.Upstream.Shape...)
	}
	return v
}

// stored is a tensor whose axes lie in memory in the given order, as a transposed view; nil is row-major.
func stored[T layout.Float](x *casefile.Tensor, axes []int) *tensor.Dense {
	row := dense(casefile.Values[T](x), x.Shape...)
	if axes == nil {
		return row
	}
	if err := row.T(axes...); err != nil {
		panic(err)
	}
	memory := row.Materialize().(*tensor.Dense)
	back := make([]int, len(axes))
	for at, axis := range axes {
		back[axis] = at
	}
	if err := memory.T(back...); err != nil {
		panic(err)
	}
	return memory
}

// lossOf makes the loss of a case with package colbert. A loss of nothing is Σ scores·upstream.
func lossOf[T layout.Float](l *casefile.Loss) lossFunc {
	if l == nil {
		return nil
	}
	if l.Name == "kd_kl" {
		return func(g *graph) (*gorgonia.Node, error) {
			teacher := gorgonia.NodeFromAny(g.ExprGraph, dense(casefile.Values[T](l.Teacher), l.Teacher.Shape...), gorgonia.WithName("teacher"))
			return colbert.KLDistill(g.scores, teacher, colbert.KLDistillConfig{Temperature: l.Temperature})
		}
	}
	labels := make([]int32, len(l.Labels))
	for i, label := range l.Labels {
		labels[i] = int32(label)
	}
	return func(g *graph) (*gorgonia.Node, error) {
		node := gorgonia.NodeFromAny(g.ExprGraph, dense(labels, len(labels)), gorgonia.WithName("labels"))
		return colbert.InfoNCE(g.scores, colbert.InfoNCEConfig{Temperature: l.Temperature, Labels: node})
	}
}

// checkStep holds the outputs of a run to the file.
func checkStep[T layout.Float](t *testing.T, c *casefile.Case, s *casefile.Step, got outputs[T]) {
	t.Helper()
	e := &s.Expect
	checkTensor(t, "scores", got.scores, e.Scores, e.ScoreTol())
	checkTensor(t, "mean_scores", got.mean, e.MeanScores, e.ScoreTol())
	checkTensor(t, "argmax", got.argmax, e.Argmax, casefile.Exact)
	if s.Upstream == nil {
		return
	}
	checkTensor(t, "dq", got.dq, e.DQ, e.GradTol())
	checkTensor(t, "dd", got.dd, e.DD, e.GradTol())
	if !c.Options.Heavy {
		checkZeroRows(t, c, s, got)
	}
	if want, ok := e.LossValue(); ok && c.Options.Loss != nil {
		tol := e.ScoreTol()
		if diff := got.loss - want; !(max(diff, -diff) <= tol.ATol+tol.RTol*max(want, -want)) {
			t.Errorf("loss is %.9g, want %.9g", got.loss, want)
		}
	}
}

func checkTensor[T casefile.Element](t *testing.T, name string, got []T, want *casefile.Expected, tol casefile.Tol) {
	t.Helper()
	if want == nil {
		return
	}
	if err := casefile.Compare(name, got, want, tol); err != nil {
		t.Error(err)
	}
}

// checkZeroRows demands gradients of exactly 0 in rows that take part in no score, whatever the tolerance.
func checkZeroRows[T layout.Float](t *testing.T, c *casefile.Case, s *casefile.Step, got outputs[T]) {
	t.Helper()
	b, err := c.Batch(s)
	if err != nil {
		t.Fatal(err)
	}
	q, d := casefile.Values[float64](s.Q), casefile.Values[float64](s.D)
	ones := make([]float64, b.Q.Len()*b.Cols())
	for at := range ones {
		ones[at] = 1
	}
	g := oracle.Backward[float64](b, onesLike(q), onesLike(d), oracle.Forward[float64](b, q, d).Argmax, ones)
	for _, side := range []struct {
		name     string
		got      []T
		touching []float64 // how often a row takes part
	}{{"dq", got.dq, g.DQ}, {"dd", got.dd, g.DD}} {
		for at, n := range side.touching {
			if n == 0 && side.got[at] != 0 {
				t.Errorf("%s[%d] is %g: its row takes part in no score, want exactly 0", side.name, at, side.got[at])
				break
			}
		}
	}
}

func onesLike(x []float64) []float64 {
	out := slices.Clone(x)
	for at := range out {
		out[at] = 1
	}
	return out
}

// checkSameBits demands that two runs gave the same.
func checkSameBits[T layout.Float](t *testing.T, got, want outputs[T]) {
	t.Helper()
	for _, x := range []struct {
		name      string
		got, want []T
	}{{"scores", got.scores, want.scores}, {"mean", got.mean, want.mean}, {"dq", got.dq, want.dq}, {"dd", got.dd, want.dd}} {
		if at := firstDifference(x.got, x.want); at >= 0 {
			t.Errorf("%s[%d] is %v, and %v in another run", x.name, at, x.got[at], x.want[at])
		}
	}
	if !slices.Equal(got.argmax, want.argmax) {
		t.Error("the argmax differs from run to run")
	}
}

// firstDifference returns where two slices first differ in bits, -1 where they do not. NaN equals NaN.
func firstDifference[T layout.Float](a, b []T) int {
	for at := range a {
		if a[at] != b[at] && (a[at] == a[at] || b[at] == b[at]) || 1/a[at] != 1/b[at] && a[at] == 0 {
			return at
		}
	}
	return -1
}
