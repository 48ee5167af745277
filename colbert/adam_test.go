package colbert

import (
	"math"
	"runtime"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// adamSteps runs steps with the gradients g(step), fresh for every step.
func adamSteps(t *testing.T, a *Adam, w []*tensor.Dense, steps int, g func(step, param int) gorgonia.Value) {
	t.Helper()
	for s := a.Steps() + 1; s <= steps; s++ {
		model := make([]gorgonia.ValueGrad, len(w))
		for i := range w {
			model[i] = valueGrad{w[i], g(s, i)}
		}
		if err := a.Step(model); err != nil {
			t.Fatal(err)
		}
	}
}

func gradientOf(dt tensor.Dtype, shape ...int) func(step, param int) gorgonia.Value {
	return func(step, param int) gorgonia.Value { return cast(normalOf(uint64(100*step+param), shape...), dt) }
}

// TestAdamFormula holds 50 steps of everything together against the formula of the paper, written out.
func TestAdamFormula(t *testing.T) {
	cfg := AdamConfig{LearningRate: 0.02, Beta1: 0.8, Beta2: 0.95, Epsilon: 1e-3, WeightDecay: 0.1, MaxNorm: 2, Schedule: WarmupLinear(5, 60)}
	for _, c := range []struct {
		dtype tensor.Dtype
		tol   float64
	}{{tensor.Float64, 1e-14}, {tensor.Float32, 2e-6}} { // float32: 50 steps of a few roundings of 2⁻²⁴ on weights near 1
		w := []*tensor.Dense{cast(normalOf(1, 3, 4), c.dtype), cast(normalOf(2, 3, 4), c.dtype)}
		want := [][]float64{float64s(w[0]), float64s(w[1])}
		a := newAdam(t, cfg)
		g := gradientOf(c.dtype, 3, 4)
		adamSteps(t, a, w, 50, g)

		m, v := [2][12]float64{}, [2][12]float64{}
		for step := 1; step <= 50; step++ {
			grads := [][]float64{float64s(g(step, 0)), float64s(g(step, 1))}
			norm := 0.0
			for _, x := range slices.Concat(grads...) {
				norm += x * x
			}
			norm = math.Sqrt(norm)
			lr := cfg.LearningRate * min(float64(step)/5, float64(61-step)/56)
			for p := range 2 {
				for i, x := range grads[p] {
					x *= min(1, 2/norm)
					m[p][i] = 0.8*m[p][i] + 0.2*x
					v[p][i] = 0.95*v[p][i] + 0.05*x*x
					mhat := m[p][i] / (1 - math.Pow(0.8, float64(step)))
					vhat := v[p][i] / (1 - math.Pow(0.95, float64(step)))
					want[p][i] -= lr * (mhat/(math.Sqrt(vhat)+1e-3) + 0.1*want[p][i])
				}
			}
		}
		for p := range 2 {
			for i, got := range float64s(w[p]) {
				if !close(got, want[p][i], c.tol) {
					t.Errorf("%v: weight %d of parameter %d is %v, want %v", c.dtype, i, p, got, want[p][i])
				}
			}
		}
	}
}

// TestAdamAgainstGorgonia: without extras both solvers are the same function.
func TestAdamAgainstGorgonia(t *testing.T) {
	ours, theirs := normalOf(1, 3, 4), normalOf(1, 3, 4)
	a, s := newAdam(t, AdamConfig{LearningRate: 0.01}), gorgonia.NewAdamSolver(gorgonia.WithLearnRate(0.01))
	g := gradientOf(tensor.Float64, 3, 4)
	for step := 1; step <= 20; step++ {
		if err := a.Step([]gorgonia.ValueGrad{valueGrad{ours, g(step, 0)}}); err != nil {
			t.Fatal(err)
		}
		if err := s.Step([]gorgonia.ValueGrad{valueGrad{theirs, g(step, 0)}}); err != nil {
			t.Fatal(err)
		}
	}
	for i, got := range ours.Float64s() {
		if !close(got, theirs.Float64s()[i], 1e-12) {
			t.Errorf("weight %d is %v, Gorgonia's %v", i, got, theirs.Float64s()[i])
		}
	}
}

// restrictTo is the gradient g restricted to rows.
func restrictTo(g *tensor.Dense, rows ...int32) *RowGrad {
	h := g.Shape()[1]
	var x []float64
	for _, r := range rows {
		x = append(x, g.Float64s()[int(r)*h:(int(r)+1)*h]...)
	}
	return &RowGrad{floats([]int{len(rows), h}, x...), rows}
}

// TestAdamRows: touched in every step, a row moves as in the dense update, bit for bit; a row not touched does not move.
func TestAdamRows(t *testing.T) {
	dense, lazy := normalOf(1, 4, 3), normalOf(1, 4, 3)
	before := slices.Clone(lazy.Float64s())
	g := gradientOf(tensor.Float64, 4, 3)
	adamSteps(t, newAdam(t, AdamConfig{WeightDecay: 0.1}), []*tensor.Dense{dense}, 10, g)
	a := newAdam(t, AdamConfig{WeightDecay: 0.1})
	adamSteps(t, a, []*tensor.Dense{lazy}, 10, func(step, p int) gorgonia.Value {
		return restrictTo(g(step, p).(*tensor.Dense), 0, 2)
	})
	for r := range 4 {
		want := before
		if r == 0 || r == 2 {
			want = dense.Float64s()
		}
		if !slices.Equal(lazy.Float64s()[3*r:3*r+3], want[3*r:3*r+3]) {
			t.Errorf("row %d is %v, want %v", r, lazy.Float64s()[3*r:3*r+3], want[3*r:3*r+3])
		}
	}
	for i, m := range a.State().M[0].Float64s() {
		if touched := i/3 == 0 || i/3 == 2; (m != 0) != touched {
			t.Errorf("first moment %d is %v", i, m)
		}
	}
}

// TestAdamResume: a run that stores and loads its state goes on with the same bits.
func TestAdamResume(t *testing.T) {
	cfg := AdamConfig{Schedule: WarmupCosine(3, 20), MaxNorm: 1}
	g := gradientOf(tensor.Float32, 3, 4)
	straight := []*tensor.Dense{random(1, 3, 4)}
	adamSteps(t, newAdam(t, cfg), straight, 12, g)

	w := []*tensor.Dense{random(1, 3, 4)}
	first := newAdam(t, cfg)
	adamSteps(t, first, w, 5, g)
	state := first.State()
	kept := slices.Clone(state.M[0].Float32s())
	adamSteps(t, first, []*tensor.Dense{random(9, 3, 4)}, 7, g) // must not reach into the state that was taken
	if !slices.Equal(kept, state.M[0].Float32s()) {
		t.Error("a later step changed a stored state")
	}
	second := newAdam(t, cfg)
	if err := second.SetState(state); err != nil {
		t.Fatal(err)
	}
	adamSteps(t, second, w, 12, g)
	if !slices.Equal(kept, state.M[0].Float32s()) {
		t.Error("a step after SetState changed the state that was given")
	}
	if !slices.Equal(w[0].Float32s(), straight[0].Float32s()) {
		t.Errorf("resumed weights %v, straight %v", w[0], straight[0])
	}
}

func TestAdamSameBitsForAnyGOMAXPROCS(t *testing.T) {
	rows := indexRows(randomIDs(1, 400, 300).Int32s(), 400).rows
	steps := func() []float32 {
		w := []*tensor.Dense{random(1, 400, 200), random(2, 400, 200)}
		adamSteps(t, newAdam(t, AdamConfig{MaxNorm: 1}), w, 3, func(step, p int) gorgonia.Value {
			if p == 0 {
				return random(uint64(step), 400, 200)
			}
			return &RowGrad{random(uint64(step), len(rows), 200), rows}
		})
		return append(slices.Clone(w[0].Float32s()), w[1].Float32s()...)
	}
	setProcs(t, 1)
	want := steps()
	for _, procs := range []int{2, 5} {
		runtime.GOMAXPROCS(procs)
		if !slices.Equal(steps(), want) {
			t.Errorf("weights differ between GOMAXPROCS 1 and %d", procs)
		}
	}
}

func TestAdamZeroesGradients(t *testing.T) {
	g := normalOf(1, 3)
	if err := newAdam(t, AdamConfig{}).Step([]gorgonia.ValueGrad{valueGrad{normalOf(2, 3), g}}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(g.Float64s(), []float64{0, 0, 0}) {
		t.Errorf("gradient is %v after the step, want 0", g)
	}
}

// TestAdamErrors: a step that fails leaves weights, moments and step count alone.
func TestAdamErrors(t *testing.T) {
	other := newAdam(t, AdamConfig{})
	if err := other.SetState(AdamState{Step: 3, M: []*tensor.Dense{normalOf(1, 2)}, V: []*tensor.Dense{normalOf(1, 2)}}); err != nil {
		t.Fatal(err)
	}
	transposed := normalOf(1, 3, 4)
	if err := transposed.T(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want string
		is   error
		adam *Adam
		w, g gorgonia.Value
	}{
		{"gradient has shape (3), expected (4)", ErrShape, nil, normalOf(1, 4), normalOf(1, 3)},
		{"gradient is float32, weights are float64", ErrDtype, nil, normalOf(1, 4), random(1, 4)},
		{"norm of the gradients is NaN in step 1", ErrValue, nil, normalOf(1, 2), floats([]int{2}, 1, math.NaN())},
		{"norm of the gradients is +Inf in step 1", ErrValue, nil, normalOf(1, 2), floats([]int{2}, 1, math.Inf(-1))},
		{"entry 1 of Rows is 2 after 2", ErrValue, nil, normalOf(1, 4, 3), &RowGrad{normalOf(1, 2, 3), []int32{2, 2}}},
		{"entry 1 of Rows is 4 after 2", ErrValue, nil, normalOf(1, 4, 3), &RowGrad{normalOf(1, 2, 3), []int32{2, 4}}},
		{"gradient has shape (2, 2), expected (2, 3)", ErrShape, nil, normalOf(1, 4, 3), &RowGrad{normalOf(1, 2, 2), []int32{1, 2}}},
		{"gradient of rows for weights (4), expected [V,h]", ErrShape, nil, normalOf(1, 4), &RowGrad{normalOf(1, 2, 2), []int32{1, 2}}},
		{"weights are int32, expected float32 or float64", ErrDtype, nil, int32s([]int{2}, 1, 2), int32s([]int{2}, 1, 2)},
		{"gradient is a *gorgonia.F64", ErrValue, nil, normalOf(1, 2), gorgonia.NewF64(1)},
		{"Adam: parameter 0 is a *gorgonia.F64", ErrValue, nil, gorgonia.NewF64(1), gorgonia.NewF64(1)},
		{"first moment has shape (2), expected (4)", ErrShape, other, normalOf(1, 4), normalOf(1, 4)},
		{"expected a contiguous row-major tensor", ErrShape, nil, transposed, normalOf(1, 4, 3)},
	} {
		t.Run(c.want, func(t *testing.T) {
			a := c.adam
			if a == nil {
				a = newAdam(t, AdamConfig{})
			}
			before := a.Steps()
			good := normalOf(5, 2)
			kept := slices.Clone(good.Float64s())
			model := []gorgonia.ValueGrad{valueGrad{c.w, c.g}, valueGrad{good, normalOf(6, 2)}}
			if c.adam != nil {
				model = model[:1]
			}
			wantError(t, a.Step(model), c.is, c.want)
			if a.Steps() != before || !slices.Equal(good.Float64s(), kept) {
				t.Error("a failed step changed something")
			}
		})
	}
	wantError(t, newAdam(t, AdamConfig{}).Step([]gorgonia.ValueGrad{nil}), ErrValue, "Adam: parameter 0 is nil")
	wantError(t, other.Step(nil), ErrShape, "Adam: 0 parameters, state is of 1")
	wantError(t, other.SetState(AdamState{M: []*tensor.Dense{nil}, V: []*tensor.Dense{normalOf(1, 2)}}), ErrValue, "Adam: state lacks a moment of parameter 0")
	wantError(t, other.SetState(AdamState{Step: -1}), ErrValue, "Adam: state with step -1")
	for _, cfg := range []AdamConfig{{LearningRate: -1}, {Beta1: 1}, {Beta2: math.NaN()}, {Epsilon: math.Inf(1)}, {WeightDecay: -1}, {MaxNorm: -1}} {
		_, err := NewAdam(cfg)
		wantError(t, err, ErrValue, "Adam: ")
	}
}

// TestAdamScheduleWithoutFactor: a schedule that divided 0 by 0 made every weight NaN without a word.
func TestAdamScheduleWithoutFactor(t *testing.T) {
	for _, factor := range []float64{math.NaN(), math.Inf(1), -0.5} {
		a := newAdam(t, AdamConfig{Schedule: func(step int) float64 {
			if step == 2 {
				return factor
			}
			return 1
		}})
		w := normalOf(1, 3)
		adamSteps(t, a, []*tensor.Dense{w}, 1, gradientOf(tensor.Float64, 3))
		kept := slices.Clone(w.Float64s())
		err := a.Step([]gorgonia.ValueGrad{valueGrad{w, normalOf(2, 3)}})
		wantError(t, err, ErrValue, "for step 2, expected a finite factor ≥ 0")
		if a.Steps() != 1 || !slices.Equal(w.Float64s(), kept) {
			t.Errorf("factor %v: a failed step changed something", factor)
		}
	}
}

func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		name     string
		schedule Schedule
		want     []float64 // of steps 1, 2, …
	}{
		{"constant", Constant(), []float64{1, 1, 1}},
		{"linear", WarmupLinear(2, 5), []float64{0.5, 1, 0.75, 0.5, 0.25, 0, 0}},
		{"linear without warm-up", WarmupLinear(0, 3), []float64{1, 2. / 3, 1. / 3, 0}},
		{"cosine", WarmupCosine(2, 5), []float64{0.5, 1, (1 + math.Sqrt2/2) / 2, 0.5, (1 - math.Sqrt2/2) / 2, 0, 0}},
		{"all warm-up", WarmupLinear(3, 3), []float64{1. / 3, 2. / 3, 1, 0}},
	} {
		for i, want := range c.want {
			if got := c.schedule(i + 1); !close(got, want, 1e-15) {
				t.Errorf("%s: factor of step %d is %v, want %v", c.name, i+1, got, want)
			}
		}
	}
}
