package colbert

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// outputs runs a fixture forward and backward and returns everything it computes.
func (f fixture) outputs(t testing.TB, machine string, inputs []input) [][]float64 {
	t.Helper()
	out := f.forward(t, inputs)
	weight := float64s(normal(rand.New(rand.NewPCG(1, 2)), max(1, len(out))))
	return append([][]float64{out}, f.gradients(t, machine, inputs, weight)...)
}

// TestFloat32 holds float32 against float64 on the same, exactly representable inputs.
func TestFloat32(t *testing.T) {
	for _, f := range fixtures() {
		t.Run(f.name, func(t *testing.T) {
			single := castAll(f.inputs, tensor.Float32)
			double := make([]input, len(single))
			for i, in := range single {
				double[i] = in
				if in.value.Dtype() == tensor.Float32 {
					double[i].value = tensor.New(tensor.WithShape(in.value.Shape()...), tensor.WithBacking(float64s(in.value)))
				}
			}
			for _, machine := range []string{"tape", "lisp"} {
				got, want := f.outputs(t, machine, single), f.outputs(t, machine, double)
				for k := range want {
					for n := range want[k] {
						// A sum of at most a dozen products of numbers below 4, times a weight below 4: 12·64 roundings of 2⁻²⁴.
						if diff := math.Abs(got[k][n] - want[k][n]); !(diff <= 5e-5) {
							t.Errorf("%s machine: output %d at %d: float32 %v, float64 %v", machine, k, n, got[k][n], want[k][n])
						}
					}
				}
			}
		})
	}
}

// wide are inputs large enough that every op splits its work over the cores.
func wide() []fixture {
	f32 := func(seed uint64, shape ...int) input { return input{random(seed, shape...), true} }
	return []fixture{
		{"Gather", []input{f32(1, 500, 64), {randomIDs(2, 300, 40, 50), false}}, func(in gorgonia.Nodes) (*gorgonia.Node, error) { return Gather(in[0], in[1]) }},
		{"Linear", []input{f32(1, 40, 50, 96), f32(2, 96, 70), f32(3, 70)}, func(in gorgonia.Nodes) (*gorgonia.Node, error) { return Linear(in[0], in[1], in[2]) }},
		{"L2Normalize", []input{f32(1, 40, 50, 96)}, func(in gorgonia.Nodes) (*gorgonia.Node, error) { return L2Normalize(in[0], 1e-12) }},
		{"ScaleTokens", []input{f32(1, 40, 50, 96), f32(2, 40, 50)}, func(in gorgonia.Nodes) (*gorgonia.Node, error) { return ScaleTokens(in[0], in[1]) }},
		{"InfoNCE", []input{f32(1, 64, 64)}, func(in gorgonia.Nodes) (*gorgonia.Node, error) { return InfoNCE(in[0], InfoNCEConfig{Symmetric: true}) }},
		{"KLDistill", []input{f32(1, 64, 64), {random(2, 64, 64), false}}, func(in gorgonia.Nodes) (*gorgonia.Node, error) { return KLDistill(in[0], in[1], KLDistillConfig{}) }},
	}
}

// setProcs sets GOMAXPROCS until the test ends.
func setProcs(t testing.TB, n int) {
	old := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(old) })
}

func TestSameBitsForAnyGOMAXPROCS(t *testing.T) {
	for _, f := range wide() {
		t.Run(f.name, func(t *testing.T) {
			setProcs(t, 1)
			want := f.outputs(t, "tape", f.inputs)
			for _, procs := range []int{2, 3, 8} {
				runtime.GOMAXPROCS(procs)
				for k, got := range f.outputs(t, "tape", f.inputs) {
					if !slices.Equal(got, want[k]) {
						t.Errorf("output %d differs between GOMAXPROCS 1 and %d", k, procs)
					}
				}
			}
		})
	}
}

// TestHash flips every setting of every op: Gorgonia merges two nodes when their hashes are equal.
func TestHash(t *testing.T) {
	kernels := []any{
		gather[float64]{idDims: 1}, gather[float64]{idDims: 2}, gather[float64]{idDims: 2, frozen: true}, gather[float32]{idDims: 2},
		linear[float64]{dims: 2}, linear[float64]{dims: 3}, linear[float64]{dims: 3, biased: true}, linear[float32]{dims: 3},
		l2normalize[float64]{dims: 3, eps: 1}, l2normalize[float64]{dims: 2, eps: 1}, l2normalize[float64]{dims: 3, eps: 1 + 1e-15}, l2normalize[float32]{dims: 3, eps: 1},
		scaleTokens[float64]{dims: 3}, scaleTokens[float64]{dims: 2}, scaleTokens[float64]{dims: 3, column: true}, scaleTokens[float32]{dims: 3},
		infoNCE[float64]{temperature: 1, stride: 1}, infoNCE[float32]{temperature: 1, stride: 1}, infoNCE[float64]{temperature: 0.5, stride: 1},
		infoNCE[float64]{temperature: 1, stride: 2}, infoNCE[float64]{temperature: 1, stride: 1, offset: 1},
		infoNCE[float64]{temperature: 1, stride: 1, symmetric: true}, infoNCE[float64]{temperature: 1, stride: 1, labelled: true},
		infoNCE[float64]{temperature: 1, stride: 1, weighted: true}, infoNCE[float64]{temperature: 1, stride: 1, excluded: true, mask: tensor.Bool, maskDims: 2}, infoNCE[float64]{temperature: 1, stride: 1, excluded: true, mask: tensor.Bool, maskDims: 1},
		infoNCE[float64]{temperature: 1, stride: 1, excluded: true, mask: tensor.Int32, maskDims: 2},
		klDistill[float64]{temperature: 1}, klDistill[float32]{temperature: 1}, klDistill[float64]{temperature: 2},
		klDistill[float64]{temperature: 1, masked: true, mask: tensor.Bool}, klDistill[float64]{temperature: 1, masked: true, mask: tensor.Int32},
	}
	seen := map[string]string{}
	add := func(what string, op gorgonia.Op) {
		h := fnv.New128a()
		op.WriteHash(h)
		key := string(h.Sum(nil))
		if other, ok := seen[key]; ok {
			t.Errorf("%s hashes like %s", what, other)
		}
		seen[key] = what
	}
	for _, k := range kernels {
		what := fmt.Sprintf("%T%+v", k, k)
		switch k := k.(type) {
		case kernel[float32]:
			add(what, &op[float32]{k})
			for i := range k.operands() {
				add(fmt.Sprint(what, " gradient ", i), &gradOp[float32]{k, i})
			}
		case kernel[float64]:
			add(what, &op[float64]{k})
			for i := range k.operands() {
				add(fmt.Sprint(what, " gradient ", i), &gradOp[float64]{k, i})
			}
		default:
			t.Errorf("%s is no kernel", what)
		}
	}
}

// TestRerun runs one graph again with other inputs and expects what a fresh graph gives.
func TestRerun(t *testing.T) {
	for _, f := range fixtures() {
		t.Run(f.name, func(t *testing.T) {
			g, nodes, out := f.graph(t, castAll(f.inputs, tensor.Float64))
			var v gorgonia.Value
			gorgonia.Read(out, &v)
			weight := float64s(normal(rand.New(rand.NewPCG(1, 2)), max(1, out.Shape().TotalSize())))
			loss := weighted(t, g, out, weight)
			var wrt gorgonia.Nodes
			for i, in := range f.inputs {
				if in.diff {
					wrt = append(wrt, nodes[i])
				}
			}
			if _, err := gorgonia.Grad(loss, wrt...); err != nil {
				t.Fatal(err)
			}
			vm := gorgonia.NewTapeMachine(g)
			defer vm.Close()
			rng := rand.New(rand.NewPCG(5, 5))
			for run := range 3 {
				inputs := castAll(f.inputs, tensor.Float64)
				for i, in := range inputs {
					if in.diff {
						in.value = normal(rng, in.value.Shape()...)
						inputs[i] = in
					}
					if err := gorgonia.Let(nodes[i], in.value); err != nil {
						t.Fatal(err)
					}
				}
				before := castAll(inputs, tensor.Float64)
				if err := vm.RunAll(); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(float64s(v), f.forward(t, inputs)) {
					t.Errorf("run %d: result is not that of a fresh graph", run)
				}
				want := f.gradients(t, "tape", inputs, weight)
				for i, in := range inputs {
					if !in.diff {
						continue
					}
					grad, err := nodes[i].Grad()
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(float64s(grad), want[i]) {
						t.Errorf("run %d: gradient %d is not that of a fresh graph", run, i)
					}
					if !slices.Equal(in.value.Float64s(), before[i].value.Float64s()) {
						t.Errorf("run %d: input %d was overwritten", run, i)
					}
				}
				vm.Reset()
			}
		})
	}
}

// TestClones runs clones of one graph, which share their ops, in goroutines with inputs of their own.
func TestClones(t *testing.T) {
	for _, f := range fixtures() {
		t.Run(f.name, func(t *testing.T) {
			g, nodes, out := f.graph(t, f.inputs)
			n := out.Shape().TotalSize()
			loss := weighted(t, g, out, float64s(normal(rand.New(rand.NewPCG(1, 2)), max(1, n))))
			if _, err := gorgonia.Grad(loss, nodes[0]); err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(6, 6))
			var wg sync.WaitGroup
			for range 4 {
				clone := g.Clone().(*gorgonia.ExprGraph)
				inputs := castAll(f.inputs, tensor.Float64)
				inputs[0].value = normal(rng, inputs[0].value.Shape()...)
				want := f.gradients(t, "tape", inputs, float64s(normal(rand.New(rand.NewPCG(1, 2)), max(1, n))))[0]
				x := clone.ByName("in0")[0]
				if err := gorgonia.Let(x, inputs[0].value); err != nil {
					t.Fatal(err)
				}
				wg.Go(func() {
					vm := gorgonia.NewTapeMachine(clone)
					defer vm.Close()
					if err := vm.RunAll(); err != nil {
						t.Error(err)
						return
					}
					grad, err := x.Grad()
					if err != nil {
						t.Error(err)
						return
					}
					if !slices.Equal(float64s(grad), want) {
						t.Error("gradient in a clone is not that of a graph of its own")
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestStorageOrder hands every op the same numbers in column-major memory, as a transposed view and as a slice of a
// larger tensor.
func TestStorageOrder(t *testing.T) {
	stores := []struct {
		name  string
		store func(d *tensor.Dense) *tensor.Dense
	}{
		{"column-major", func(d *tensor.Dense) *tensor.Dense {
			return restore(d, tensor.New(tensor.WithShape(d.Shape()...), tensor.Of(d.Dtype()), tensor.AsFortran(nil)))
		}},
		{"transposed view", func(d *tensor.Dense) *tensor.Dense {
			shape := d.Shape().Clone()
			slices.Reverse(shape)
			v := tensor.New(tensor.WithShape(shape...), tensor.Of(d.Dtype()))
			if err := v.T(); err != nil {
				panic(err)
			}
			return restore(d, v)
		}},
		{"slice", func(d *tensor.Dense) *tensor.Dense {
			shape := d.Shape().Clone()
			cut := make([]tensor.Slice, len(shape))
			for k, n := range shape {
				shape[k] = 2 * n
				cut[k] = gorgonia.S(0, 2*n, 2)
				if n == 1 {
					return d // a slice of one element loses its axis
				}
			}
			v, err := tensor.New(tensor.WithShape(shape...), tensor.Of(d.Dtype())).Slice(cut...)
			if err != nil {
				panic(err)
			}
			return restore(d, v.(*tensor.Dense))
		}},
	}
	for _, s := range stores {
		for _, f := range fixtures() {
			t.Run(s.name+"/"+f.name, func(t *testing.T) {
				inputs := make([]input, len(f.inputs))
				for i, in := range f.inputs {
					inputs[i] = input{s.store(in.value), in.diff}
				}
				k, err := kernelOf(f, t)
				if err != nil {
					t.Fatal(err)
				}
				values := func(in []input) (v []gorgonia.Value) {
					for _, x := range in {
						v = append(v, x.value)
					}
					return v
				}
				want, err := evaluate(k, values(f.inputs))
				if err != nil {
					t.Fatal(err)
				}
				got, err := evaluate(k, values(inputs))
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(float64s(got), float64s(want)) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		}
	}
}

// kernelOf returns the kernel behind the fixture's node.
func kernelOf(f fixture, t testing.TB) (kernel[float64], error) {
	_, _, out := f.graph(t, f.inputs)
	o, ok := out.Op().(*op[float64])
	if !ok {
		return nil, fmt.Errorf("op is a %T", out.Op())
	}
	return o.kernel, nil
}

// restore writes the elements of d, which is row-major, into v at the same coordinates and returns v.
func restore(d, v *tensor.Dense) *tensor.Dense {
	for i := range d.Shape().TotalSize() {
		if err := v.SetAt(d.Get(i), position(i, d.Shape())...); err != nil {
			panic(err)
		}
	}
	return v
}

// panics is a kernel that breaks in one of many ranges of its work.
type panics struct{ scaleTokens[float64] }

func (k panics) forward(_ []*tensor.Dense, out []float64) error {
	parallel(len(out), 1, func(lo, hi int) {
		if lo == len(out)/2 {
			panic("half way")
		}
	})
	return nil
}

func (k panics) backward(_ int, in []*tensor.Dense, _, dx []float64) error { return k.forward(in, dx) }

// TestPanicsAreErrors: a panic on a goroutine of an op, or of a machine, would end the process.
func TestPanicsAreErrors(t *testing.T) {
	k := panics{scaleTokens[float64]{dims: 2}}
	in := []gorgonia.Value{normalOf(1, 5, 4), normalOf(2, 5)}
	for _, procs := range []int{1, 3} {
		setProcs(t, procs)
		_, err := evaluate(k, in)
		wantError(t, err, ErrInternal, "ScaleTokens: half way")
		_, err = differentiate(k, 0, in, normalOf(3, 5, 4))
		wantError(t, err, ErrInternal, "ScaleTokens: half way")
	}
}

// TestSecondDerivative: asking for one is an error, not a zero.
func TestSecondDerivative(t *testing.T) {
	g := gorgonia.NewGraph()
	x := gorgonia.NewTensor(g, tensor.Float64, 3, gorgonia.WithShape(2, 3, 4), gorgonia.WithName("x"))
	y := gorgonia.Must(L2Normalize(x, 1e-12))
	grads, err := gorgonia.Grad(gorgonia.Must(gorgonia.Sum(y)), x)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gorgonia.Grad(gorgonia.Must(gorgonia.Sum(grads[0])), x); err == nil {
		t.Error("a second derivative was built")
	}
}

// TestLispStepsThroughReshape: on a LispMachine Reshape gives its own gradient to what it read, in that shape. The second
// step used to fail when an op of this package added to it.
func TestLispStepsThroughReshape(t *testing.T) {
	g := gorgonia.NewGraph()
	rows := gorgonia.NodeFromAny(g, normalOf(1, 6, 4), gorgonia.WithName("rows"))
	x, err := L2Normalize(gorgonia.Must(gorgonia.Reshape(gorgonia.Must(gorgonia.Tanh(rows)), []int{2, 3, 4})), 1e-12)
	if err != nil {
		t.Fatal(err)
	}
	weight := gorgonia.NodeFromAny(g, normalOf(2, 2, 3, 4), gorgonia.WithName("weight"))
	gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(x, weight))))
	var first []float64
	for step := range 3 {
		run(t, gorgonia.NewLispMachine(g))
		got, err := rows.Grad()
		if err != nil {
			t.Fatal(err)
		}
		if step == 0 {
			first = slices.Clone(float64s(got))
		} else if !slices.Equal(float64s(got), first) {
			t.Errorf("step %d: gradient %v, of the first step %v", step, got, first)
		}
		got.(gorgonia.Zeroer).Zero()
	}
}
