package maxsim

import (
	"errors"
	"math"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cuda"
)

// input is a graph input of the given dtype and shape.
func input(g *gorgonia.ExprGraph, dt tensor.Dtype, name string, shape ...int) *gorgonia.Node {
	return gorgonia.NewTensor(g, dt, len(shape), gorgonia.WithShape(shape...), gorgonia.WithName(name))
}

// docGrads asks for the document rows' gradients of two queries and five documents.
func docGrads(in func(dt int, name string, shape ...int) *gorgonia.Node, upstream *gorgonia.Node) (*gorgonia.Node, error) {
	scores, err := InBatch(in(0, "q", 2, 3, 4), in(0, "d", 5, 6, 4), Config{})
	if err != nil {
		return nil, err
	}
	_, grads, err := DocGradRows(scores, upstream)
	return grads, err
}

// backpropagated asks for the gradients of two queries and five documents.
func backpropagated(in func(dt int, name string, shape ...int) *gorgonia.Node, upstream *gorgonia.Node) (*gorgonia.Node, error) {
	q := in(0, "q", 2, 3, 4)
	scores, err := InBatch(q, in(0, "d", 5, 6, 4), Config{})
	if err != nil {
		return nil, err
	}
	_, err = gorgonia.Backpropagate(gorgonia.Nodes{scores}, gorgonia.Nodes{upstream}, gorgonia.Nodes{q})
	return nil, err
}

// TestBuildErrors shows what each wrong graph is answered with.
func TestBuildErrors(t *testing.T) {
	const f32, f64, i32, i64 = 0, 1, 2, 3
	dts := []tensor.Dtype{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64}
	type build func(in func(dt int, name string, shape ...int) *gorgonia.Node) (*gorgonia.Node, error)
	cases := []struct {
		name  string
		build build
		is    error
		want  []string // parts of the message
	}{
		{"dims differ", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return InBatch(in(f32, "q", 2, 3, 4), in(f32, "d", 5, 6, 5), Config{})
		}, ErrShape, []string{"(2, 3, 4)", "(5, 6, 5)", "dim 4", "dim 5"}},
		{"rank", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return InBatch(in(f32, "q", 2, 3, 4), in(f32, "d", 6, 4), Config{})
		}, ErrShape, []string{"(2, 3, 4)", "(6, 4)", "[b, t, dim]"}},
		{"rank packed", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return Packed(in(f32, "q", 2, 3, 4), in(i32, "cq", 3), in(f32, "d", 6, 4), in(i32, "cd", 3), Config{})
		}, ErrShape, []string{"(2, 3, 4)", "(6, 4)", "[rows, dim]"}},
		{"paired counts", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return Paired(in(f32, "q", 2, 3, 4), in(f32, "d", 3, 5, 4), Config{})
		}, ErrShape, []string{"(2, 3, 4)", "(3, 5, 4)", "need 2 documents"}},
		{"candidate counts", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return Candidates(in(f32, "q", 2, 1, 2), in(f32, "d", 5, 1, 2), 2, Config{})
		}, ErrShape, []string{"(2, 1, 2)", "(5, 1, 2)", "need 4 documents"}},
		{"no candidates", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return Candidates(in(f32, "q", 2, 1, 2), in(f32, "d", 2, 1, 2), 0, Config{})
		}, ErrShape, []string{"at least 1", "got 0"}},
		{"mixed floats", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return InBatch(in(f32, "q", 2, 3, 4), in(f64, "d", 2, 3, 4), Config{})
		}, ErrDtype, []string{"float32", "float64"}},
		{"integers", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return InBatch(in(i32, "q", 2, 3, 4), in(i32, "d", 2, 3, 4), Config{})
		}, ErrDtype, []string{"int32", "expected float32 or float64"}},
		{"query mask shape", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return InBatch(in(f32, "q", 2, 3, 4), in(f32, "d", 5, 6, 4), Config{QueryMask: in(f32, "m", 2, 6)})
		}, ErrShape, []string{"query mask (2, 6)", "(2, 3)"}},
		{"document mask shape", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return InBatch(in(f32, "q", 2, 3, 4), in(f32, "d", 5, 6, 4), Config{DocMask: in(f32, "m", 2, 3)})
		}, ErrShape, []string{"document mask (2, 3)", "(5, 6)"}},
		{"packed mask shape", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return Packed(in(f32, "q", 7, 4), in(i32, "cq", 3), in(f32, "d", 6, 4), in(i32, "cd", 3), Config{DocMask: in(f32, "m", 7)})
		}, ErrShape, []string{"document mask (7)", "(6)"}},
		{"offsets dtype", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return Packed(in(f32, "q", 7, 4), in(i64, "cq", 3), in(f32, "d", 6, 4), in(i32, "cd", 3), Config{})
		}, ErrDtype, []string{"query cu_seqlens", "int64", "int32"}},
		{"offsets length", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return Packed(in(f32, "q", 7, 4), in(i32, "cq", 3), in(f32, "d", 6, 4), in(i32, "cd", 1), Config{})
		}, ErrShape, []string{"document cu_seqlens (1)", "at least 2"}},
		{"nil node", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return InBatch(in(f32, "q", 2, 3, 4), nil, Config{})
		}, ErrNode, []string{"document tokens", "nil"}},
		{"another graph", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return InBatch(in(f32, "q", 2, 3, 4), input(gorgonia.NewGraph(), tensor.Float32, "d", 2, 3, 4), Config{})
		}, ErrNode, []string{"different graphs"}},
		{"a constant", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			mask := gorgonia.NewConstant(tensor.New(tensor.WithShape(5, 6), tensor.Of(tensor.Bool)))
			return InBatch(in(f32, "q", 2, 3, 4), in(f32, "d", 5, 6, 4), Config{DocMask: mask})
		}, ErrNode, []string{"document mask", "in no graph", "NodeFromAny"}},
		{"a statement", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			var v gorgonia.Value
			return InBatch(in(f32, "q", 2, 3, 4), gorgonia.Read(in(f32, "d", 5, 6, 4), &v), Config{})
		}, ErrNode, []string{"document tokens", "statement"}},
		{"a node of nothing", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return InBatch(new(gorgonia.Node), new(gorgonia.Node), Config{})
		}, ErrNode, []string{"query tokens", "in no graph"}},
		{"rows beyond int32", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return InBatch(in(f32, "q", 2, 3, 4), in(f32, "d", 1<<16, 1<<15, 4), Config{})
		}, ErrShape, []string{"(65536, 32768, 4)", "more than 2147483647"}},
		{"rows beyond int", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return InBatch(in(f32, "q", 2, 3, 4), in(f32, "d", math.MaxInt/2+1, 4, 4), Config{}) // 4 of them are 0
		}, ErrShape, []string{"more than 2147483647"}},
		{"candidates beyond int", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return Candidates(in(f32, "q", 4, 1, 2), in(f32, "d", 4, 1, 2), math.MaxInt/2+2, Config{}) // 4 of them are 4
		}, ErrShape, []string{"candidates per query", "at most 2147483647"}},
		{"upstream gradient missing", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return docGrads(in, nil)
		}, ErrNode, []string{"upstream gradient", "nil"}},
		{"upstream gradient of another graph", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return docGrads(in, input(gorgonia.NewGraph(), tensor.Float32, "up", 2, 5))
		}, ErrNode, []string{"upstream gradient", "different graphs"}},
		{"upstream gradient of another shape", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return docGrads(in, in(f32, "up", 5, 2))
		}, ErrShape, []string{"upstream gradient (5, 2)", "(2, 5)"}},
		{"upstream gradient of another dtype", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return docGrads(in, in(f64, "up", 2, 5))
		}, ErrDtype, []string{"upstream gradient is float64", "float32"}},
		{"backpropagation of another shape", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return backpropagated(in, in(f32, "up", 5, 2))
		}, nil, []string{"upstream gradient (5, 2)", "(2, 5)"}},
		{"backpropagation of another dtype", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return backpropagated(in, in(f64, "up", 2, 5))
		}, nil, []string{"upstream gradient is float64", "float32"}},
		{"document rows on a GPU", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			scores, err := InBatch(in(f32, "q", 2, 3, 4), in(f32, "d", 5, 6, 4), Config{Device: &Device{new(cuda.Device)}})
			if err != nil {
				return nil, err
			}
			_, grads, err := DocGradRows(scores, in(f32, "up", 2, 5))
			return grads, err
		}, ErrConfig, []string{"CPU only", "cuda:0"}},
		{"precision on the CPU", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return InBatch(in(f32, "q", 2, 3, 4), in(f32, "d", 2, 3, 4), Config{Precision: BF16})
		}, ErrConfig, []string{"bf16", "CUDA"}},
		{"unknown precision", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return InBatch(in(f32, "q", 2, 3, 4), in(f32, "d", 2, 3, 4), Config{Precision: 9})
		}, ErrConfig, []string{"precision(9)"}},
		{"argmax of nothing", func(func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return Argmax(nil)
		}, ErrNode, []string{"nil"}},
		{"argmax of another node", func(in func(int, string, ...int) *gorgonia.Node) (*gorgonia.Node, error) {
			return Argmax(in(f32, "q", 2, 3, 4))
		}, ErrNode, []string{"not a scores node"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := gorgonia.NewGraph()
			_, err := c.build(func(dt int, name string, shape ...int) *gorgonia.Node { return input(g, dts[dt], name, shape...) })
			checkError(t, err, c.is, c.want)
		})
	}
}

// checkError asks for an error that is the given one, unless that is nil: Gorgonia's differentiation hides what an error is.
func checkError(t *testing.T, err, is error, want []string) {
	t.Helper()
	if err == nil || is != nil && !errors.Is(Cause(err), is) {
		t.Fatalf("got %v, expected %v", err, is)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if n := strings.Count(err.Error(), "maxsim:"); n != 1 {
		t.Errorf("%q has the prefix %d times", err, n)
	}
}

// machines are the two ways of running a graph.
var machines = []struct {
	name string
	run  func(g *gorgonia.ExprGraph) error
}{
	{"TapeMachine", func(g *gorgonia.ExprGraph) error {
		vm := gorgonia.NewTapeMachine(g)
		defer vm.Close()
		return vm.RunAll()
	}},
	{"LispMachine", func(g *gorgonia.ExprGraph) error {
		vm := gorgonia.NewLispMachine(g, gorgonia.ExecuteFwdOnly())
		defer vm.Close()
		return vm.RunAll()
	}},
}

// TestRunErrors shows what each wrong value is answered with, through both machines and Cause.
func TestRunErrors(t *testing.T) {
	dense := func(backing any, shape ...int) *tensor.Dense {
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(backing))
	}
	tokens := dense(make([]float32, 12), 4, 3)
	nan := float32(math.NaN())
	cases := []struct {
		name   string
		cu     []int32
		mask   []float32
		is     error
		expect []string
	}{
		{"start", []int32{1, 2, 4}, nil, ErrOffsets, []string{"document cu_seqlens", "start at 1"}},
		{"decrease", []int32{0, 3, 2}, nil, ErrOffsets, []string{"decrease from 3 to 2", "index 2"}},
		{"negative", []int32{0, -3, 2}, nil, ErrOffsets, []string{"decrease from 0 to -3"}},
		{"beyond the rows", []int32{0, 3, 5}, nil, ErrOffsets, []string{"end at 5", "4 rows"}},
		{"mask value", []int32{0, 3, 4}, []float32{1, 0, 0.5, 1}, ErrMask, []string{"document mask", "0.5", "index 2"}},
		{"mask NaN", []int32{0, 3, 4}, []float32{1, 0, 1, nan}, ErrMask, []string{"NaN", "index 3"}},
	}
	for _, m := range machines {
		for _, c := range cases {
			t.Run(m.name+"/"+c.name, func(t *testing.T) {
				g := gorgonia.NewGraph()
				q := gorgonia.NodeFromAny(g, tokens.Clone(), gorgonia.WithName("q"))
				d := gorgonia.NodeFromAny(g, tokens.Clone(), gorgonia.WithName("d"))
				cuQ := gorgonia.NodeFromAny(g, dense([]int32{0, 2, 4}, 3), gorgonia.WithName("cuQ"))
				cuD := gorgonia.NodeFromAny(g, dense(c.cu, 3), gorgonia.WithName("cuD"))
				var cfg Config
				if c.mask != nil {
					cfg.DocMask = gorgonia.NodeFromAny(g, dense(c.mask, 4), gorgonia.WithName("mask"))
				}
				if _, err := Packed(q, cuQ, d, cuD, cfg); err != nil {
					t.Fatal(err)
				}
				checkError(t, m.run(g), c.is, c.expect)
			})
		}
	}
}

// TestCauseLeavesOtherErrorsAlone: an error that is not this package's comes back as it was.
func TestCauseLeavesOtherErrorsAlone(t *testing.T) {
	for _, err := range []error{nil, errors.New("other")} {
		if got := Cause(err); got != err {
			t.Errorf("Cause(%v) = %v", err, got)
		}
	}
}

// TestUnknownKernelsAreAnError: a name that no CPU path has is not answered by another path.
func TestUnknownKernelsAreAnError(t *testing.T) {
	t.Setenv("MAXSIM_CPU", "avx1024")
	g := gorgonia.NewGraph()
	if _, err := InBatch(gorgonia.NodeFromAny(g, counting(1, 2, 3), gorgonia.WithName("q")),
		gorgonia.NodeFromAny(g, counting(1, 4, 3), gorgonia.WithName("d")), Config{}); err != nil {
		t.Fatal(err)
	}
	checkError(t, machines[0].run(g), ErrDevice, []string{`"avx1024"`, "MAXSIM_CPU", "generic"})
}

// TestSecondDerivativesAreNotLeftOut: a loss of a gradient, a penalty on ∇q say, once lost the term that goes through that
// gradient without a word, where the tokens had another way to the loss. Second derivatives are not offered: an error.
func TestSecondDerivativesAreNotLeftOut(t *testing.T) {
	for name, gradientOf := range map[string]func(scores, q, d, up *gorgonia.Node) (*gorgonia.Node, error){
		"dq": func(scores, q, _, up *gorgonia.Node) (*gorgonia.Node, error) {
			grads, err := gorgonia.Backpropagate(gorgonia.Nodes{scores}, gorgonia.Nodes{up}, gorgonia.Nodes{q})
			return grads[0], err
		},
		"dd": func(scores, _, d, up *gorgonia.Node) (*gorgonia.Node, error) {
			grads, err := gorgonia.Backpropagate(gorgonia.Nodes{scores}, gorgonia.Nodes{up}, gorgonia.Nodes{d})
			return grads[0], err
		},
		"document rows": func(scores, _, _, up *gorgonia.Node) (*gorgonia.Node, error) {
			_, grads, err := DocGradRows(scores, up)
			return grads, err
		},
	} {
		for _, wrt := range []string{"q", "d", "up"} {
			t.Run(name+" by "+wrt, func(t *testing.T) {
				g := gorgonia.NewGraph()
				in := map[string]*gorgonia.Node{
					"q": input(g, tensor.Float32, "q", 2, 3, 4), "d": input(g, tensor.Float32, "d", 5, 6, 4), "up": input(g, tensor.Float32, "up", 2, 5)}
				scores, err := InBatch(in["q"], in["d"], Config{})
				if err != nil {
					t.Fatal(err)
				}
				first, err := gradientOf(scores, in["q"], in["d"], in["up"])
				if err != nil {
					t.Fatal(err)
				}
				penalty := gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.Square(first))))
				other := gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.Exp(in[wrt]))))
				_, err = gorgonia.Grad(gorgonia.Must(gorgonia.Add(penalty, other)), in[wrt])
				if err == nil || !strings.Contains(err.Error(), "second derivatives of MaxSim are not offered") {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}
