package maxsim_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/casefile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// engine is a way to run MaxSim nodes: a device, or a set of CPU kernels.
type engine struct {
	name string
	use  func(t *testing.T) *maxsim.Device // makes it current for one test; nil is the CPU
}

// openCUDA opens the first GPU for all tests.
var openCUDA = sync.OnceValues(func() (*maxsim.Device, error) { return maxsim.OpenCUDA(0) })

// engines lists the CPU kernels that this machine can run, then its GPU if there is one. A GPU that the environment
// variable MAXSIM_DEVICE asks for is listed in any case, so that its absence is a failure.
func engines() []engine {
	var list []engine
	for _, path := range []string{"avx512", "avx2", "generic"} {
		if _, err := cpu.With[float32](path); err != nil {
			continue
		}
		list = append(list, engine{"cpu-" + path, func(t *testing.T) *maxsim.Device {
			t.Setenv(cpu.PathVariable, path)
			return nil
		}})
	}
	if _, err := openCUDA(); err != nil && !strings.HasPrefix(os.Getenv(maxsim.DeviceVariable), "cuda") {
		return list
	}
	return append(list, engine{"cuda", func(t *testing.T) *maxsim.Device {
		device, err := openCUDA()
		if err != nil {
			t.Fatal(err)
		}
		return device
	}})
}

// testDevice is where all tests but TestCases run: the CPU, or what the environment variable MAXSIM_DEVICE names.
var testDevice = sync.OnceValues(func() (*maxsim.Device, error) { return maxsim.OpenDevice("") })

// machines are Gorgonia's two ways of running a graph.
var machines = []string{"TapeMachine", "LispMachine"}

// setting is everything constant about a graph with one MaxSim node.
type setting struct {
	layout string        // of package casefile
	group  int           // of the candidates layout
	cfg    maxsim.Config // on testDevice, unless cpu or Device say otherwise
	cpu    bool
	mean   bool // a second node scores the same tokens with Config.Mean
	grads  bool
	loss   lossFunc // nil: Σ scores·upstream
}

// lossFunc makes the loss of a graph from its scores.
type lossFunc func(g *graph) (*gorgonia.Node, error)

// values are the inputs of one run; nil is no such input.
type values struct{ q, d, cuQ, cuD, maskQ, maskD, upstream *tensor.Dense }

// outputs are the results of one run.
type outputs[T layout.Float] struct {
	scores, mean, dq, dd []T
	argmax               []int32
	loss                 float64
}

// graph is a graph with a MaxSim node, the inputs with the values of the first run.
type graph struct {
	*gorgonia.ExprGraph
	q, d, cuQ, cuD, maskQ, maskD, upstream *gorgonia.Node
	scores, mean, loss                     *gorgonia.Node
}

func newGraph(s setting, v values) (*graph, error) {
	g := &graph{ExprGraph: gorgonia.NewGraph()}
	for _, in := range g.inputs(&v) {
		if in.value != nil {
			*in.node = gorgonia.NodeFromAny(g.ExprGraph, in.value, gorgonia.WithName(in.name))
		}
	}
	s.cfg.QueryMask, s.cfg.DocMask = g.maskQ, g.maskD
	var err error
	if s.cfg.Device == nil && !s.cpu {
		if s.cfg.Device, err = testDevice(); err != nil {
			return nil, err
		}
	}
	if g.scores, err = g.maxSim(s); err != nil {
		return nil, err
	}
	if s.mean {
		s.cfg.Mean = true
		if g.mean, err = g.maxSim(s); err != nil {
			return nil, err
		}
	}
	if !s.grads {
		return g, nil
	}
	if s.loss != nil {
		g.loss, err = s.loss(g)
	} else {
		g.loss, err = weightedSum(g)
	}
	return g, err
}

type input struct {
	name  string
	node  **gorgonia.Node
	value *tensor.Dense
}

func (g *graph) inputs(v *values) []input {
	return []input{{"q", &g.q, v.q}, {"d", &g.d, v.d}, {"cuQ", &g.cuQ, v.cuQ}, {"cuD", &g.cuD, v.cuD},
		{"maskQ", &g.maskQ, v.maskQ}, {"maskD", &g.maskD, v.maskD}, {"upstream", &g.upstream, v.upstream}}
}

// let gives the inputs new values.
func (g *graph) let(v values) error {
	for _, in := range g.inputs(&v) {
		if (*in.node == nil) != (in.value == nil) {
			return fmt.Errorf("%s: a graph cannot gain or lose an input between runs", in.name)
		}
		if in.value != nil {
			if err := gorgonia.Let(*in.node, in.value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *graph) maxSim(s setting) (*gorgonia.Node, error) {
	switch s.layout {
	case casefile.AllPairs:
		return maxsim.InBatch(g.q, g.d, s.cfg)
	case casefile.Paired:
		return maxsim.Paired(g.q, g.d, s.cfg)
	case casefile.Candidates:
		return maxsim.Candidates(g.q, g.d, s.group, s.cfg)
	case casefile.Packed:
		return maxsim.Packed(g.q, g.cuQ, g.d, g.cuD, s.cfg)
	}
	return nil, fmt.Errorf("no layout %q", s.layout)
}

func weightedSum(g *graph) (*gorgonia.Node, error) {
	weighted, err := gorgonia.HadamardProd(g.scores, g.upstream)
	if err != nil {
		return nil, err
	}
	return gorgonia.Sum(weighted)
}

// program is a compiled graph.
type program[T layout.Float] interface {
	// step runs the graph once, on the given inputs.
	step(v values) (outputs[T], error)
	close() error
}

// compile builds the graph for a machine; v has the shapes.
func compile[T layout.Float](machine string, s setting, v values) (program[T], error) {
	if machine == "LispMachine" {
		return &lispProgram[T]{s}, nil
	}
	return newTapeProgram[T](s, v)
}

// tapeProgram is one graph and one TapeMachine for any number of runs.
type tapeProgram[T layout.Float] struct {
	*graph
	vm     gorgonia.VM
	read   *readings
	dq, dd *gorgonia.Node
}

// readings are what Read fills in. They lie apart from the machine, which has a finalizer and reaches them through its
// graph: if they reached it back, it would never be collected.
type readings struct{ scores, mean, argmax, loss gorgonia.Value }

func newTapeProgram[T layout.Float](s setting, v values) (*tapeProgram[T], error) {
	g, err := newGraph(s, v)
	if err != nil {
		return nil, err
	}
	p := &tapeProgram[T]{graph: g, read: new(readings)}
	argmax, err := maxsim.Argmax(g.scores)
	if err != nil {
		return nil, err
	}
	gorgonia.Read(argmax, &p.read.argmax)
	gorgonia.Read(g.scores, &p.read.scores)
	if g.mean != nil {
		gorgonia.Read(g.mean, &p.read.mean)
	}
	if g.loss != nil {
		gorgonia.Read(g.loss, &p.read.loss)
		grads, err := gorgonia.Grad(g.loss, g.q, g.d)
		if err != nil {
			return nil, err
		}
		p.dq, p.dd = grads[0], grads[1]
	}
	p.vm = gorgonia.NewTapeMachine(g.ExprGraph)
	return p, nil
}

func (p *tapeProgram[T]) step(v values) (outputs[T], error) {
	if err := p.let(v); err != nil {
		return outputs[T]{}, err
	}
	p.vm.Reset()
	if err := p.vm.RunAll(); err != nil {
		return outputs[T]{}, err
	}
	out := outputs[T]{scores: elements[T](p.read.scores), mean: elements[T](p.read.mean), argmax: elements[int32](p.read.argmax), loss: scalar(p.read.loss)}
	if p.dq != nil {
		// Not through Read, which copies.
		out.dq, out.dd = elements[T](p.dq.Value()), elements[T](p.dd.Value())
	}
	return out, nil
}

func (p *tapeProgram[T]) close() error { return p.vm.Close() }

// lispProgram makes new graphs and new LispMachines for every run, because Reset of that machine computes nothing
// anew. One graph runs forward only; the other differentiates the loss, which must then be its only root.
type lispProgram[T layout.Float] struct{ setting }

func (p *lispProgram[T]) step(v values) (outputs[T], error) {
	out, err := p.forward(v)
	if err != nil || !p.grads {
		return out, err
	}
	s := p.setting
	s.mean = false
	g, err := newGraph(s, v)
	if err != nil {
		return out, err
	}
	vm := gorgonia.NewLispMachine(g.ExprGraph)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		return out, err
	}
	out.loss = scalar(g.loss.Value())
	for _, side := range []struct {
		node *gorgonia.Node
		grad *[]T
	}{{g.q, &out.dq}, {g.d, &out.dd}} {
		grad, err := side.node.Grad()
		if err != nil {
			return out, err
		}
		*side.grad = elements[T](grad)
	}
	// This machine learns only in its backward pass that the argmax is wanted. It must be the forward one all the same.
	last, err := maxsim.LastArgmax(g.scores)
	if err != nil {
		return out, err
	}
	if !slices.Equal(elements[int32](last), out.argmax) {
		return out, errors.New("LastArgmax differs from the Argmax node")
	}
	return out, nil
}

func (p *lispProgram[T]) forward(v values) (out outputs[T], err error) {
	s := p.setting
	s.grads = false
	g, err := newGraph(s, v)
	if err != nil {
		return out, err
	}
	node, err := maxsim.Argmax(g.scores)
	if err != nil {
		return out, err
	}
	var scores, mean, argmax gorgonia.Value
	gorgonia.Read(g.scores, &scores)
	gorgonia.Read(node, &argmax)
	if g.mean != nil {
		gorgonia.Read(g.mean, &mean)
	}
	vm := gorgonia.NewLispMachine(g.ExprGraph, gorgonia.ExecuteFwdOnly())
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		return out, err
	}
	return outputs[T]{scores: elements[T](scores), mean: elements[T](mean), argmax: elements[int32](argmax)}, nil
}

func (p *lispProgram[T]) close() error { return nil }

// elements copies a value's elements in row-major order; nil for no value. What has many GB is not copied.
func elements[T any](v gorgonia.Value) []T {
	if v == nil {
		return nil
	}
	if t, ok := v.(*tensor.Dense); ok && (t.RequiresIterator() || t.DataOrder().IsColMajor()) {
		return inOrder[T](t)
	}
	switch data := v.Data().(type) {
	case []T:
		if len(data) > 1<<28 {
			return data
		}
		return slices.Clone(data)
	case T:
		return []T{data}
	}
	panic(fmt.Sprintf("a %T where %T is expected", v.Data(), []T(nil)))
}

// inOrder reads a tensor in row-major order, whatever its order in memory.
func inOrder[T any](x *tensor.Dense) []T {
	shape := x.Shape()
	out := make([]T, shape.TotalSize())
	index := make([]int, len(shape))
	for at := range out {
		rest := at
		for axis := len(shape) - 1; axis >= 0; axis-- {
			index[axis], rest = rest%shape[axis], rest/shape[axis]
		}
		v, err := x.At(index...)
		if err != nil {
			panic(err)
		}
		out[at] = v.(T)
	}
	return out
}

// scalar reads a float scalar, 0 for no value.
func scalar(v gorgonia.Value) float64 {
	if v == nil {
		return 0
	}
	switch x := v.Data().(type) {
	case float32:
		return float64(x)
	case float64:
		return x
	case []float32:
		return float64(x[0])
	case []float64:
		return x[0]
	}
	panic(fmt.Sprintf("a %T where a scalar is expected", v.Data()))
}

func dense[T any](data []T, shape ...int) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))
}

// offsets is cu_seqlens as a graph input; nil for none.
func offsets(cu []int) *tensor.Dense {
	if cu == nil {
		return nil
	}
	out := make([]int32, len(cu))
	for i, at := range cu {
		out[i] = int32(at)
	}
	return dense(out, len(out))
}

// maskOf is a mask as a graph input: bool on one machine, in the type of the tokens on the other.
func maskOf[T layout.Float](valid []bool, shape []int, machine string) *tensor.Dense {
	if machine == "TapeMachine" {
		return dense(valid, shape...)
	}
	out := make([]T, len(valid))
	for at, v := range valid {
		if v {
			out[at] = 1
		}
	}
	return dense(out, shape...)
}
