package maxsim

import (
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// composed is MaxSim from Gorgonia's built-in ops, the baseline: Mul → Reshape → Max → Sum. It stores every similarity.
//
//	q [bq·tq, dim]   d [bd·td, dim]   scores [bq, bd]
func composed(q, d *gorgonia.Node, bq, bd int) (*gorgonia.Node, error) {
	tq, td := q.Shape()[0]/bq, d.Shape()[0]/bd
	dT, err := gorgonia.Transpose(d)
	if err != nil {
		return nil, err
	}
	sims, err := gorgonia.Mul(q, dT)
	if err != nil {
		return nil, err
	}
	if sims, err = gorgonia.Reshape(sims, tensor.Shape{bq, tq, bd, td}); err != nil {
		return nil, err
	}
	best, err := gorgonia.Max(sims, 3)
	if err != nil {
		return nil, err
	}
	return gorgonia.Sum(best, 1)
}

// randomTokens is a tensor of unit-variance normal values.
func randomTokens[T float32 | float64](r *rand.Rand, shape ...int) *tensor.Dense {
	data := make([]T, tensor.ProdInts(shape))
	for k := range data {
		data[k] = T(r.NormFloat64())
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))
}

// step is a training step: scores, their weighted sum, and the gradients of both sides.
type step struct {
	vm gorgonia.VM
	*readings
	dq, dd *gorgonia.Node
}

// readings are what Read fills in. They lie apart from the machine, which has a finalizer and reaches them through its
// graph: if they reached it back, it would never be collected.
type readings struct{ scores gorgonia.Value }

// newStep builds the step for token tensors of shape [b, t, dim]; fused is this package's op, the alternative composed.
func newStep(q, d, weights *tensor.Dense, fused bool) (*step, error) {
	g := gorgonia.NewGraph()
	bq, bd := q.Shape()[0], d.Shape()[0]
	if !fused {
		q, d = q.ShallowClone(), d.ShallowClone()
		for _, x := range []*tensor.Dense{q, d} {
			if err := x.Reshape(x.Shape()[0]*x.Shape()[1], x.Shape()[2]); err != nil {
				return nil, err
			}
		}
	}
	qn := gorgonia.NodeFromAny(g, q, gorgonia.WithName("q"))
	dn := gorgonia.NodeFromAny(g, d, gorgonia.WithName("d"))
	wn := gorgonia.NodeFromAny(g, weights, gorgonia.WithName("w"))
	var scores *gorgonia.Node
	var err error
	if fused {
		scores, err = InBatch(qn, dn, Config{})
	} else {
		scores, err = composed(qn, dn, bq, bd)
	}
	if err != nil {
		return nil, err
	}
	s := &step{readings: new(readings)}
	gorgonia.Read(scores, &s.scores)
	loss := gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(scores, wn))))
	grads, err := gorgonia.Grad(loss, qn, dn)
	if err != nil {
		return nil, err
	}
	s.dq, s.dd = grads[0], grads[1]
	s.vm = gorgonia.NewTapeMachine(g)
	return s, nil
}

func (s *step) run() error {
	s.vm.Reset()
	return s.vm.RunAll()
}

// TestComposedGraphAgrees: the fused op is a drop-in for the built-ins where those are right (no ties, no masks).
func TestComposedGraphAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	q, d := randomTokens[float64](r, 3, 5, 7), randomTokens[float64](r, 4, 6, 7)
	w := randomTokens[float64](r, 3, 4)
	var steps [2]*step
	for k := range steps {
		var err error
		if steps[k], err = newStep(q, d, w, k == 0); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := steps[k].run(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for k, pair := range [][2]gorgonia.Value{
		{steps[0].scores, steps[1].scores}, {steps[0].dq.Value(), steps[1].dq.Value()}, {steps[0].dd.Value(), steps[1].dd.Value()},
	} {
		a, b := pair[0].Data().([]float64), pair[1].Data().([]float64)
		if len(a) != len(b) {
			t.Fatalf("%d: %d and %d elements", k, len(a), len(b))
		}
		for x := range a {
			if diff := a[x] - b[x]; diff > 1e-12 || diff < -1e-12 {
				t.Fatalf("%d: element %d is %v, built-ins give %v", k, x, a[x], b[x])
			}
		}
	}
}
