package colbert

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// AdamConfig holds the settings of [Adam]. A field that is 0 means the default in its comment.
type AdamConfig struct {
	LearningRate float64  // 1e-3
	Beta1        float64  // 0.9
	Beta2        float64  // 0.999
	Epsilon      float64  // 1e-8
	WeightDecay  float64  // none: decoupled from the gradient, as in AdamW
	MaxNorm      float64  // no clipping: largest Euclidean norm of all gradients together
	Schedule     Schedule // Constant
}

// Adam is a gorgonia.Solver: Adam with bias correction, a learning-rate schedule, clipping by the global norm and
// decoupled weight decay. In step t, elementwise:
//
//	g ← g · min(1, MaxNorm/‖all g‖)
//	m ← β1·m + (1−β1)·g
//	v ← β2·v + (1−β2)·g²
//	w ← w − lr·( m/(1−β1ᵗ) / (√(v/(1−β2ᵗ)) + ε) + WeightDecay·w )      lr = LearningRate · Schedule(t)
//
// A parameter whose gradient is a [*RowGrad] (an [Embedding]) is updated lazily, as PyTorch's SparseAdam does: only the
// touched rows of w, m and v change, with the t of the step. The moments of a row do not decay in a step that does not
// touch it, nor does its weight. A row touched in every step moves as in the dense update, bit for bit.
//
// On a TapeMachine, weights whose gradients came from Grad need no gorgonia.BindDualValues, and may have it. Only where a
// gorgonia.Reshape lets another op write into a gradient is it needed: Step then returns an error without it.
//
// Step sets the gradients to 0 like Gorgonia's solvers do. Weights are changed in place. Results are bit-identical for
// any GOMAXPROCS. An Adam is for one goroutine at a time and must be given the same parameters in the same order in
// every step.
type Adam struct {
	cfg   AdamConfig
	state AdamState
	norm  float64
}

// AdamState is what a training run must store to continue exactly: the number of steps and, for each parameter in
// order, the first and second moments.
type AdamState struct {
	Step int
	M, V []*tensor.Dense
}

// NewAdam returns an optimiser. Settings out of range are errors.
func NewAdam(cfg AdamConfig) (*Adam, error) {
	setDefault(&cfg.LearningRate, 1e-3)
	setDefault(&cfg.Beta1, 0.9)
	setDefault(&cfg.Beta2, 0.999)
	setDefault(&cfg.Epsilon, 1e-8)
	if cfg.Schedule == nil {
		cfg.Schedule = Constant()
	}
	finite, below1 := "a finite number ≥ 0", "a number from 0 up to but not 1"
	for _, s := range []struct {
		name     string
		value    float64
		bound    float64
		expected string
	}{
		{"LearningRate", cfg.LearningRate, math.Inf(1), finite}, {"Beta1", cfg.Beta1, 1, below1}, {"Beta2", cfg.Beta2, 1, below1},
		{"Epsilon", cfg.Epsilon, math.Inf(1), finite}, {"WeightDecay", cfg.WeightDecay, math.Inf(1), finite},
		{"MaxNorm", cfg.MaxNorm, math.Inf(1), finite},
	} {
		if !(s.value >= 0 && s.value < s.bound) {
			return nil, fmt.Errorf("%w: Adam: %s is %v, expected %s", ErrValue, s.name, s.value, s.expected)
		}
	}
	return &Adam{cfg: cfg}, nil
}

func setDefault(x *float64, value float64) {
	if *x == 0 {
		*x = value
	}
}

// Steps returns the number of steps done.
func (a *Adam) Steps() int { return a.state.Step }

// LearningRate returns the learning rate of the step that was done last, or of the first before any.
func (a *Adam) LearningRate() float64 {
	return a.cfg.LearningRate * a.cfg.Schedule(max(1, a.state.Step))
}

// GradNorm returns the global norm of the gradients in the step that was done last, before clipping.
func (a *Adam) GradNorm() float64 { return a.norm }

// State returns a copy of the state.
func (a *Adam) State() AdamState { return a.state.clone() }

// SetState continues from a state of State; the next Step checks it against the parameters.
func (a *Adam) SetState(s AdamState) error {
	if s.Step < 0 || len(s.M) != len(s.V) {
		return fmt.Errorf("%w: Adam: state with step %d, %d first and %d second moments", ErrValue, s.Step, len(s.M), len(s.V))
	}
	for i := range s.M {
		if s.M[i] == nil || s.V[i] == nil {
			return fmt.Errorf("%w: Adam: state lacks a moment of parameter %d", ErrValue, i)
		}
	}
	a.state = s.clone()
	return nil
}

func (s AdamState) clone() AdamState {
	out := AdamState{Step: s.Step}
	for i := range s.M {
		out.M = append(out.M, s.M[i].Clone().(*tensor.Dense))
		out.V = append(out.V, s.V[i].Clone().(*tensor.Dense))
	}
	return out
}

// Step updates the parameters by their gradients. A gradient that is missing, of another shape or dtype, or not finite
// is an error, and so is a factor of the Schedule that is negative or not finite; then nothing has changed.
func (a *Adam) Step(model []gorgonia.ValueGrad) (err error) {
	defer recoverInto("Adam", &err)
	params, err := a.parameters(model)
	if err != nil {
		return err
	}
	sum := 0.0
	for _, p := range params {
		sum += p.squaredNorm()
	}
	norm := math.Sqrt(sum)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return fmt.Errorf("%w: Adam: norm of the gradients is %v in step %d", ErrValue, norm, a.state.Step+1)
	}
	if f := a.cfg.Schedule(a.state.Step + 1); !(f >= 0) || math.IsInf(f, 1) {
		return fmt.Errorf("%w: Adam: Schedule gives %v for step %d, expected a finite factor ≥ 0", ErrValue, f, a.state.Step+1)
	}
	a.norm = norm
	a.state.Step++
	r := a.rates()
	for _, p := range params {
		p.update(r)
	}
	for i, p := range params {
		if err := p.zeroGrad(model[i]); err != nil {
			return err
		}
	}
	return nil
}

// rates are the numbers of one step that are the same for every element.
type rates struct {
	clip                 float64
	beta1, beta2         float64
	lr, bias1, bias2     float64 // bias: 1 − βᵗ
	epsilon, weightDecay float64
}

func (a *Adam) rates() rates {
	c, t := a.cfg, float64(a.state.Step)
	r := rates{clip: 1, beta1: c.Beta1, beta2: c.Beta2, lr: a.LearningRate(), epsilon: c.Epsilon, weightDecay: c.WeightDecay}
	r.bias1, r.bias2 = 1-math.Pow(c.Beta1, t), 1-math.Pow(c.Beta2, t)
	if c.MaxNorm > 0 && a.norm > c.MaxNorm {
		r.clip = c.MaxNorm / a.norm
	}
	return r
}

var _ gorgonia.Solver = (*Adam)(nil)
