package maxsim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/casefile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/oracle"
)

// differenceStep is the step of central differences. MaxSim is linear while no winner changes, so a step has no
// truncation error, and the larger it is the less rounding shows.
const differenceStep = 1e-4

// differenceTol bounds |gradient − central difference|. A loss here is a sum of at most 200 products below 50, so its
// rounding error is below 200·50·2⁻⁵³ ≈ 1e-12, and two losses are divided by 2·differenceStep.
const differenceTol = 1e-8

// tally is what a gradient check compared.
type tally struct {
	partials int     // partial derivatives compared
	worst    float64 // largest difference
}

func (c *tally) add(diff float64) {
	c.partials++
	c.worst = max(c.worst, diff)
}

// TestGradients checks ∇q and ∇d in every layout, with every kind of mask, as sum and as mean, on both machines, in
// three ways: central differences in float64 over all elements, the closed form of the oracle, and float32 against
// float64.
func TestGradients(t *testing.T) {
	var differences, closed, single tally
	for _, c := range gradCases() {
		for _, mean := range []bool{false, true} {
			c.setting.cfg.Mean = mean
			p := newGradProblem(t, c)
			for _, machine := range machines {
				t.Run(fmt.Sprintf("%s/mean=%t/%s", c.name, mean, machine), func(t *testing.T) {
					got := gradients[float64](t, c, p, machine)
					centralDifferences(t, c, p, got, &differences)
					closedForm(t, p, got, &closed)
					closedForm(t, p, gradients[float32](t, c, p, machine), &single)
				})
			}
		}
	}
	t.Logf("%d partial derivatives against central differences: largest difference %.2g", differences.partials, differences.worst)
	t.Logf("%d partial derivatives against the closed form: largest difference %.2g", closed.partials, closed.worst)
	t.Logf("%d float32 partial derivatives against float64: largest difference %.2g", single.partials, single.worst)
	if differences.partials < 10000 {
		t.Errorf("only %d partial derivatives were compared", differences.partials)
	}
}

// gradCase is a layout with masks.
type gradCase struct {
	name           string
	setting        setting
	qShape, dShape []int
	cuQ, cuD       []int
	maskQ, maskD   func(s, t int) bool // of token t of sequence s; nil: all valid
}

func gradCases() []gradCase {
	layouts := []gradCase{
		{name: "InBatch", setting: setting{layout: casefile.AllPairs}, qShape: []int{3, 4, 5}, dShape: []int{3, 6, 5}},
		{name: "InBatch with hard negatives", setting: setting{layout: casefile.AllPairs}, qShape: []int{2, 3, 7}, dShape: []int{5, 4, 7}},
		{name: "Paired", setting: setting{layout: casefile.Paired}, qShape: []int{4, 5, 3}, dShape: []int{4, 6, 3}},
		{name: "Candidates", setting: setting{layout: casefile.Candidates, group: 3}, qShape: []int{2, 4, 6}, dShape: []int{6, 5, 6}},
		{name: "Packed", setting: setting{layout: casefile.Packed}, qShape: []int{11, 4}, dShape: []int{19, 4},
			cuQ: []int{0, 4, 4, 9}, cuD: []int{0, 5, 11, 11, 17}},
	}
	masks := []struct {
		name         string
		maskQ, maskD func(s, t int) bool
	}{
		{name: "no mask"},
		{name: "query prefixes", maskQ: func(s, t int) bool { return t < 1+s }},
		{name: "left-padded documents", maskD: func(s, t int) bool { return t >= s%3 }},
		{name: "holes", maskQ: func(s, t int) bool { return (s+t)%3 != 1 }, maskD: func(s, t int) bool { return (2*s+t)%4 != 2 }},
		{name: "empty query and document", maskQ: func(s, _ int) bool { return s != 1 }, maskD: func(s, t int) bool { return s != 0 && t != 1 }},
	}
	var list []gradCase
	for _, c := range layouts {
		for _, m := range masks {
			withMask := c
			withMask.name = c.name + "/" + m.name
			withMask.maskQ, withMask.maskD = m.maskQ, m.maskD
			list = append(list, withMask)
		}
	}
	return list
}

// gradProblem is a gradCase with numbers.
type gradProblem struct {
	batch        *layout.Batch
	maskQ, maskD []bool    // [rows]; nil: all valid
	q, d         []float64 // exact in float32
	ds           []float64 // d loss / d scores
	dsSum        []float64 // the same by the sums that the scores are, or are the means of
	argmax       []int32
}

// newGradProblem draws numbers until no difference step can change a winner.
func newGradProblem(t *testing.T, c gradCase) *gradProblem {
	p := &gradProblem{batch: &layout.Batch{Dim: c.qShape[len(c.qShape)-1]}}
	p.batch.Q, p.maskQ = sequencesOf(c.qShape, c.cuQ, c.maskQ)
	p.batch.D, p.maskD = sequencesOf(c.dShape, c.cuD, c.maskD)
	switch c.setting.layout {
	case casefile.Paired:
		p.batch.Group = 1
	case casefile.Candidates:
		p.batch.Group = c.setting.group
	}
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p.q, p.d = normal(rng, tensor.ProdInts(c.qShape)), normal(rng, tensor.ProdInts(c.dShape))
		p.ds = normal(rng, p.batch.Q.Len()*p.batch.Cols())
		r := oracle.Forward[float64](p.batch, p.q, p.d)
		// One element moves by a step: two similarities move apart by at most two steps times an element.
		if r.MinMargin() < 4*differenceStep*max(largest(p.q), largest(p.d)) {
			continue
		}
		p.argmax = r.Argmax
		p.dsSum = append([]float64(nil), p.ds...)
		for at := range p.dsSum {
			if c.setting.cfg.Mean {
				p.dsSum[at] /= float64(max(1, p.batch.Q.Valid(at/p.batch.Cols())))
			}
		}
		return p
	}
	t.Fatalf("%s: no seed keeps the margin", c.name)
	return nil
}

// sequencesOf places the sequences of one side and spells out their mask.
func sequencesOf(shape, cu []int, mask func(s, t int) bool) (layout.Seqs, []bool) {
	var s layout.Seqs
	if cu != nil {
		s = layout.Packed(shape[0], cu)
	} else {
		s = layout.Dense(shape[0], shape[1])
	}
	if mask == nil {
		return s, nil
	}
	valid := make([]bool, s.Rows)
	for i := range s.Len() {
		for t := range s.Tokens(i) {
			valid[s.Cu[i]+t] = mask(i, t)
		}
	}
	return s.Masked(func(row int) bool { return valid[row] }), valid
}

// normal draws numbers that are exact in float32.
func normal(rng *rand.Rand, n int) []float64 {
	out := make([]float64, n)
	for at := range out {
		out[at] = float64(float32(rng.NormFloat64()))
	}
	return out
}

func largest(x []float64) (m float64) {
	for _, v := range x {
		m = max(m, math.Abs(v))
	}
	return m
}

// inputsOf makes graph inputs of a problem.
func inputsOf[T layout.Float](c gradCase, p *gradProblem, machine string) values {
	v := values{
		q: dense(converted[T](p.q), c.qShape...), d: dense(converted[T](p.d), c.dShape...),
		cuQ: offsets(c.cuQ), cuD: offsets(c.cuD),
	}
	switch cols := p.batch.Cols(); {
	case c.setting.layout == casefile.Paired:
		v.upstream = dense(converted[T](p.ds), len(p.ds))
	default:
		v.upstream = dense(converted[T](p.ds), len(p.ds)/cols, cols)
	}
	if p.maskQ != nil {
		v.maskQ = maskOf[T](p.maskQ, c.qShape[:len(c.qShape)-1], machine)
	}
	if p.maskD != nil {
		v.maskD = maskOf[T](p.maskD, c.dShape[:len(c.dShape)-1], machine)
	}
	return v
}

func converted[T layout.Float](x []float64) []T {
	out := make([]T, len(x))
	for at, v := range x {
		out[at] = T(v)
	}
	return out
}

// gradients runs forward and backward three times on one graph, the first time on other numbers, and returns what the
// last two agree on.
func gradients[T layout.Float](t *testing.T, c gradCase, p *gradProblem, machine string) outputs[T] {
	t.Helper()
	c.setting.grads = true
	v := inputsOf[T](c, p, machine)
	prog, err := compile[T](machine, c.setting, v)
	if err != nil {
		t.Fatal(err)
	}
	defer prog.close()
	other := *p
	rng := rand.New(rand.NewPCG(77, 1))
	other.q, other.d, other.ds = normal(rng, len(p.q)), normal(rng, len(p.d)), normal(rng, len(p.ds))
	var got [3]outputs[T]
	for n, in := range []values{inputsOf[T](c, &other, machine), v, v} {
		if got[n], err = prog.step(in); err != nil {
			t.Fatal(err)
		}
	}
	checkSameBits(t, got[2], got[1])
	return got[2]
}

// centralDifferences differentiates the loss numerically by every element, in a graph that computes nothing else.
func centralDifferences(t *testing.T, c gradCase, p *gradProblem, got outputs[float64], count *tally) {
	t.Helper()
	v := inputsOf[float64](c, p, machines[0])
	g, err := newGraph(c.setting, v)
	if err != nil {
		t.Fatal(err)
	}
	if g.loss, err = weightedSum(g); err != nil {
		t.Fatal(err)
	}
	var loss gorgonia.Value
	gorgonia.Read(g.loss, &loss)
	vm := gorgonia.NewTapeMachine(g.ExprGraph)
	defer vm.Close()
	run := func() float64 {
		vm.Reset()
		if err := vm.RunAll(); err != nil {
			t.Fatal(err)
		}
		return scalar(loss)
	}
	for _, side := range []struct {
		name string
		x    []float64
		node *tensor.Dense
		grad []float64
	}{{"dq", p.q, v.q, got.dq}, {"dd", p.d, v.d, got.dd}} {
		data := side.node.Data().([]float64)
		want := fd.Gradient(nil, func(x []float64) float64 {
			copy(data, x)
			return run()
		}, append([]float64(nil), side.x...), &fd.Settings{Formula: fd.Central, Step: differenceStep})
		copy(data, side.x)
		for at, w := range want {
			diff := math.Abs(side.grad[at] - w)
			count.add(diff)
			if !(diff <= differenceTol) {
				t.Errorf("%s[%d] is %.12g, central differences give %.12g", side.name, at, side.grad[at], w)
			}
		}
	}
}

// closedForm holds gradients to the oracle's, which has float64 sums: the error is at most that of one addition for
// each pair of tokens that share a row, and of three roundings of a term (mean, product, upstream).
func closedForm[T layout.Float](t *testing.T, p *gradProblem, got outputs[T], count *tally) {
	t.Helper()
	unit := 0x1p-53
	if _, ok := any(got.dq).([]float32); ok {
		unit = 0x1p-24
	}
	want := oracle.Backward[float64](p.batch, p.q, p.d, p.argmax, p.dsSum)
	terms := float64(p.batch.Q.Rows*p.batch.Cols() + 3)
	for _, side := range []struct {
		name        string
		got         []T
		want, scale []float64
	}{{"dq", got.dq, want.DQ, want.DQScale}, {"dd", got.dd, want.DD, want.DDScale}} {
		for at, w := range side.want {
			diff := math.Abs(float64(side.got[at]) - w)
			count.add(diff)
			if !(diff <= 2*terms*unit*side.scale[at]) {
				t.Errorf("%s[%d] is %.9g, the closed form gives %.9g", side.name, at, side.got[at], w)
			}
		}
	}
}

// TestGradientOfATokenMatrixWithItself: one node on both sides gets the sum of both gradients.
func TestGradientOfATokenMatrixWithItself(t *testing.T) {
	const b, tokens, dim = 3, 4, 5
	for _, machine := range machines {
		t.Run(machine, func(t *testing.T) {
			x := normal(rand.New(rand.NewPCG(3, 1)), b*tokens*dim)
			weights := normal(rand.New(rand.NewPCG(4, 1)), b*b)
			batch := &layout.Batch{Q: layout.Dense(b, tokens), D: layout.Dense(b, tokens), Dim: dim}
			r := oracle.Forward[float64](batch, x, x)
			if m := r.MinMargin(); m < 4*differenceStep*largest(x) {
				t.Fatalf("margin %g", m)
			}
			got := selfGradient(t, machine, x, weights)
			want := oracle.Backward[float64](batch, x, x, r.Argmax, weights)
			for at := range x {
				if diff := math.Abs(got[at] - want.DQ[at] - want.DD[at]); !(diff <= 1e-12) {
					t.Errorf("dx[%d] is %.12g, the closed form gives %.12g", at, got[at], want.DQ[at]+want.DD[at])
				}
			}
		})
	}
}

// selfGradient returns the gradient of Σ weights·InBatch(x, x).
func selfGradient(t *testing.T, machine string, x, weights []float64) []float64 {
	t.Helper()
	g := gorgonia.NewGraph()
	node := gorgonia.NodeFromAny(g, dense(x, 3, 4, 5), gorgonia.WithName("x"))
	scores, err := maxsim.InBatch(node, node, maxsim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	loss, err := weightedSum(&graph{scores: scores, upstream: gorgonia.NodeFromAny(g, dense(weights, 3, 3), gorgonia.WithName("w"))})
	if err != nil {
		t.Fatal(err)
	}
	if machine == "LispMachine" {
		vm := gorgonia.NewLispMachine(g)
		defer vm.Close()
		if err := vm.RunAll(); err != nil {
			t.Fatal(err)
		}
		grad, err := node.Grad()
		if err != nil {
			t.Fatal(err)
		}
		return elements[float64](grad)
	}
	grads, err := gorgonia.Grad(loss, node)
	if err != nil {
		t.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	return elements[float64](grads[0].Value())
}
