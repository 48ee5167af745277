package colbert

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// input is a value of a test graph.
type input struct {
	value *tensor.Dense
	diff  bool
}

// fixture is one op with inputs; in holds a node for each input, in order.
type fixture struct {
	name   string
	inputs []input
	build  func(in gorgonia.Nodes) (*gorgonia.Node, error)
}

// graph builds the op of f over the given values. Nothing but the op is in it.
func (f fixture) graph(t testing.TB, inputs []input) (*gorgonia.ExprGraph, gorgonia.Nodes, *gorgonia.Node) {
	t.Helper()
	g := gorgonia.NewGraph()
	nodes := make(gorgonia.Nodes, len(inputs))
	for i, in := range inputs {
		shape := in.value.Shape()
		nodes[i] = gorgonia.NewTensor(g, in.value.Dtype(), shape.Dims(), gorgonia.WithShape(shape...), gorgonia.WithName(fmt.Sprint("in", i)), gorgonia.WithValue(in.value))
	}
	out, err := f.build(nodes)
	if err != nil {
		t.Fatalf("%s: %v", f.name, err)
	}
	return g, nodes, out
}

// forward runs the op alone on a TapeMachine.
func (f fixture) forward(t testing.TB, inputs []input) []float64 {
	t.Helper()
	g, _, out := f.graph(t, inputs)
	var v gorgonia.Value
	gorgonia.Read(out, &v)
	vm := gorgonia.NewTapeMachine(g)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatalf("%s: %v", f.name, err)
	}
	return float64s(v)
}

// weighted appends Σ weight·out to the graph, so that no two elements of out have the same upstream gradient.
func weighted(t testing.TB, g *gorgonia.ExprGraph, out *gorgonia.Node, weight []float64) *gorgonia.Node {
	t.Helper()
	if out.IsScalar() {
		c := gorgonia.NewScalar(g, out.Dtype(), gorgonia.WithName("weight"), gorgonia.WithValue(scalarOf(out.Dtype(), weight[0])))
		return gorgonia.Must(gorgonia.HadamardProd(out, c))
	}
	w := cast(tensor.New(tensor.WithShape(out.Shape()...), tensor.WithBacking(append([]float64{}, weight...))), out.Dtype())
	n := gorgonia.NewTensor(g, out.Dtype(), out.Dims(), gorgonia.WithShape(out.Shape()...), gorgonia.WithName("weight"), gorgonia.WithValue(w))
	return gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(out, n))))
}

func scalarOf(dt tensor.Dtype, x float64) gorgonia.Value {
	if dt == tensor.Float32 {
		return gorgonia.NewF32(float32(x))
	}
	return gorgonia.NewF64(x)
}

// gradients returns the gradient of Σ weight·out by every differentiable input; nil for the others.
func (f fixture) gradients(t testing.TB, machine string, inputs []input, weight []float64) [][]float64 {
	t.Helper()
	g, nodes, out := f.graph(t, inputs)
	loss := weighted(t, g, out, weight)
	var wrt gorgonia.Nodes
	for i, in := range inputs {
		if in.diff {
			wrt = append(wrt, nodes[i])
		}
	}
	var vm gorgonia.VM
	if machine == "tape" {
		if _, err := gorgonia.Grad(loss, wrt...); err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		vm = gorgonia.NewTapeMachine(g)
	} else {
		vm = gorgonia.NewLispMachine(g)
	}
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatalf("%s on %s machine: %v", f.name, machine, err)
	}
	grads := make([][]float64, len(inputs))
	for i, in := range inputs {
		if in.diff {
			v, err := nodes[i].Grad()
			if err != nil {
				t.Fatal(err)
			}
			grads[i] = float64s(v)
		}
	}
	return grads
}

// float64s copies the elements of a float value.
func float64s(v gorgonia.Value) []float64 {
	switch d := v.Data().(type) {
	case float32:
		return []float64{float64(d)}
	case float64:
		return []float64{d}
	case []float32:
		out := make([]float64, len(d))
		for i, x := range d {
			out[i] = float64(x)
		}
		return out
	case []float64:
		return append([]float64{}, d...)
	}
	panic(fmt.Sprintf("no floats: %T", v.Data()))
}

// cast returns a copy of a float64 tensor as dt; other dtypes are cloned.
func cast(d *tensor.Dense, dt tensor.Dtype) *tensor.Dense {
	if d.Dtype() != tensor.Float64 || dt == tensor.Float64 {
		return d.Clone().(*tensor.Dense)
	}
	out := make([]float32, d.DataSize())
	for i, x := range d.Float64s() {
		out[i] = float32(x)
	}
	return tensor.New(tensor.WithShape(d.Shape()...), tensor.WithBacking(out))
}

func castAll(inputs []input, dt tensor.Dtype) []input {
	out := make([]input, len(inputs))
	for i, in := range inputs {
		out[i] = input{cast(in.value, dt), in.diff}
	}
	return out
}

func normal(rng *rand.Rand, shape ...int) *tensor.Dense {
	x := make([]float64, tensor.Shape(shape).TotalSize())
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(x))
}

func int32s(shape []int, x ...int32) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(x))
}

// TestGradients compares every partial derivative of every op on both machines with central differences. The
// differences come from a graph that holds the op and nothing else.
func TestGradients(t *testing.T) {
	compared, worst := 0, 0.0
	for _, f := range fixtures() {
		t.Run(f.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			weight := float64s(normal(rng, max(1, len(f.forward(t, f.inputs)))))
			for _, machine := range []string{"tape", "lisp"} {
				got := f.gradients(t, machine, f.inputs, weight)
				for i, in := range f.inputs {
					if !in.diff {
						continue
					}
					x := in.value.Float64s()
					at := append([]float64{}, x...)
					want := fd.Gradient(nil, func(p []float64) float64 {
						copy(x, p)
						s := 0.0
						for n, y := range f.forward(t, f.inputs) {
							s += weight[n] * y
						}
						return s
					}, at, &fd.Settings{Formula: fd.Central, Step: 1e-5})
					copy(x, at)
					for n := range want {
						// Truncation and rounding of a central difference of step 1e-5 at values near 1.
						err := math.Abs(got[i][n]-want[n]) / (1 + math.Abs(want[n]))
						if !(err < 1e-7) {
							t.Errorf("%s machine: gradient of input %d at %d is %v, difference quotient %v", machine, i, n, got[i][n], want[n])
						}
						worst = max(worst, err)
						compared++
					}
				}
			}
		})
	}
	t.Logf("%d partial derivatives compared, largest relative error %.2g", compared, worst)
}

// normalOf returns normal values that depend on the seed alone.
func normalOf(seed uint64, shape ...int) *tensor.Dense {
	return normal(rand.New(rand.NewPCG(seed, 5)), shape...)
}

func floats(shape []int, x ...float64) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(x))
}
