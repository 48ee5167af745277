package colbert

import (
	"errors"
	"math"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// node makes an input node of a fresh graph for a constructor that must refuse it.
func node(g *gorgonia.ExprGraph, name string, dt tensor.Dtype, shape ...int) *gorgonia.Node {
	return gorgonia.NewTensor(g, dt, len(shape), gorgonia.WithShape(shape...), gorgonia.WithName(name))
}

func TestBuildErrors(t *testing.T) {
	f32, f64, i32, i64 := tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64
	for _, c := range []struct {
		want  string
		is    error
		build func(g *gorgonia.ExprGraph) (*gorgonia.Node, error)
	}{
		{"Gather: table is nil", ErrValue, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) { return Gather(nil, node(g, "ids", i32, 2, 3)) }},
		{"Gather: ids is nil", ErrValue, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) { return Gather(node(g, "table", f32, 4, 5), nil) }},
		{"Gather: table is int32, expected float32 or float64", ErrDtype, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return Gather(node(g, "table", i32, 4, 5), node(g, "ids", i32, 2, 3))
		}},
		{"Gather: ids is int64, expected int32", ErrDtype, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return Gather(node(g, "table", f32, 4, 5), node(g, "ids", i64, 2, 3))
		}},
		{"Gather: ids has shape (2, 3, 4), expected [B,T] or [N]", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return Gather(node(g, "table", f32, 4, 5), node(g, "ids", i32, 2, 3, 4))
		}},
		{"Gather: table has shape (4, 5, 6), expected 2 dimensions", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return Gather(node(g, "table", f32, 4, 5, 6), node(g, "ids", i32, 2, 3))
		}},
		{"NewEmbedding: table has shape (4), expected [V,h]", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			_, err := NewEmbedding(node(g, "table", f32, 4))
			return nil, err
		}},
		{"Linear: w is nil", ErrValue, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return Linear(node(g, "x", f32, 2, 3, 4), nil, nil)
		}},
		{"Linear: w is float64, expected float32", ErrDtype, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return Linear(node(g, "x", f32, 2, 3, 4), node(g, "w", f64, 4, 5), nil)
		}},
		{"Linear: x (2, 3, 4) has vectors of 4, w (5, 4) takes 5", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return Linear(node(g, "x", f32, 2, 3, 4), node(g, "w", f32, 5, 4), nil)
		}},
		{"Linear: bias (4) does not fit w (4, 5), expected [5]", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return Linear(node(g, "x", f32, 2, 3, 4), node(g, "w", f32, 4, 5), node(g, "bias", f32, 4))
		}},
		{"Linear: x has shape (4), expected [B,T,h] or [N,h]", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return Linear(node(g, "x", f32, 4), node(g, "w", f32, 4, 5), nil)
		}},
		{"L2Normalize: eps is 0, expected a finite number above 0", ErrValue, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) { return L2Normalize(node(g, "x", f32, 2, 3, 4), 0) }},
		{"L2Normalize: eps is NaN", ErrValue, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return L2Normalize(node(g, "x", f32, 2, 3, 4), math.NaN())
		}},
		{"L2Normalize: x is a scalar", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return L2Normalize(gorgonia.NewScalar(g, f32, gorgonia.WithName("x")), 1)
		}},
		{"ScaleTokens: w has shape (2, 4), expected (2, 3) for x (2, 3, 4)", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return ScaleTokens(node(g, "x", f32, 2, 3, 4), node(g, "w", f32, 2, 4))
		}},
		{"ScaleTokens: w has shape (2, 3, 4), expected (2, 3, 1) for x (2, 3, 4)", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return ScaleTokens(node(g, "x", f32, 2, 3, 4), node(g, "w", f32, 2, 3, 4))
		}},
		{"ScaleTokens: w has shape (2), expected 2 dimensions", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return ScaleTokens(node(g, "x", f32, 2, 3, 4), node(g, "w", f32, 2))
		}},
		{"InfoNCE: temperature is -1, expected a finite number above 0", ErrValue, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return InfoNCE(node(g, "scores", f32, 4, 4), InfoNCEConfig{Temperature: -1})
		}},
		{"InfoNCE: labels from 0 to 3 (offset 0, stride 1) are not all columns of scores (4, 3)", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return InfoNCE(node(g, "scores", f32, 4, 3), InfoNCEConfig{})
		}},
		{"InfoNCE: labels from 4 to 7 (offset 4, stride 1) are not all columns of scores (4, 7)", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return InfoNCE(node(g, "scores", f32, 4, 7), InfoNCEConfig{Offset: 4})
		}},
		{"InfoNCE: labels has shape (3), expected (4) for scores (4, 7)", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return InfoNCE(node(g, "scores", f32, 4, 7), InfoNCEConfig{Labels: node(g, "labels", i32, 3)})
		}},
		{"InfoNCE: labels is int64, expected int32", ErrDtype, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return InfoNCE(node(g, "scores", f32, 4, 7), InfoNCEConfig{Labels: node(g, "labels", i64, 4)})
		}},
		{"InfoNCE: weights is float64, expected float32", ErrDtype, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return InfoNCE(node(g, "scores", f32, 4, 7), InfoNCEConfig{Weights: node(g, "weights", f64, 4)})
		}},
		{"InfoNCE: exclude has shape (4, 4), expected (4, 7) for scores (4, 7)", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return InfoNCE(node(g, "scores", f32, 4, 7), InfoNCEConfig{Exclude: node(g, "exclude", tensor.Bool, 4, 4)})
		}},
		{"InfoNCE: exclude is string, expected bool", ErrDtype, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return InfoNCE(node(g, "scores", f32, 4, 7), InfoNCEConfig{Exclude: node(g, "exclude", tensor.String, 4, 7)})
		}},
		{"InfoNCE: scores has shape (4), expected 2 dimensions", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return InfoNCE(node(g, "scores", f32, 4), InfoNCEConfig{})
		}},
		{"InfoNCE: labels beside offset 1 and stride 0, expected one or the other", ErrValue, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return InfoNCE(node(g, "scores", f32, 4, 7), InfoNCEConfig{Labels: node(g, "labels", i32, 4), Offset: 1})
		}},
		{"Linear: w and x are in different graphs", ErrValue, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return Linear(node(g, "x", f32, 2, 3, 4), node(gorgonia.NewGraph(), "w", f32, 4, 5), nil)
		}},
		{"KLDistill: teacher is nil", ErrValue, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return KLDistill(node(g, "scores", f32, 4, 7), nil, KLDistillConfig{})
		}},
		{"KLDistill: teacher has shape (4, 6), scores (4, 7)", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return KLDistill(node(g, "scores", f32, 4, 7), node(g, "teacher", f32, 4, 6), KLDistillConfig{})
		}},
		{"KLDistill: temperature is +Inf", ErrValue, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return KLDistill(node(g, "scores", f32, 4, 7), node(g, "teacher", f32, 4, 7), KLDistillConfig{Temperature: math.Inf(1)})
		}},
		{"KLDistill: mask has shape (7), expected 2 dimensions", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return KLDistill(node(g, "scores", f32, 4, 7), node(g, "teacher", f32, 4, 7), KLDistillConfig{Mask: node(g, "mask", i32, 7)})
		}},
		{"Grad: loss has shape (4, 4), expected a scalar", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			_, err := Grad(node(g, "scores", f32, 4, 4))
			return nil, err
		}},
		{"Grad: node 0 of wrt is nil", ErrValue, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			_, err := Grad(gorgonia.NewScalar(g, f32, gorgonia.WithName("loss")), nil)
			return nil, err
		}},
		{"Grad: Non Differentiable WRTs: map[aside", ErrValue, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			loss := gorgonia.Must(gorgonia.Sum(node(g, "x", f32, 2, 3)))
			_, err := Grad(loss, node(g, "aside", f32, 2, 3))
			return nil, err
		}},
		{"Linear: w has shape (4, 0), expected nothing empty", ErrShape, func(g *gorgonia.ExprGraph) (*gorgonia.Node, error) {
			return Linear(node(g, "x", f32, 2, 3, 4), node(g, "w", f32, 4, 0), nil)
		}},
	} {
		t.Run(c.want, func(t *testing.T) {
			_, err := c.build(gorgonia.NewGraph())
			wantError(t, err, c.is, c.want)
		})
	}
}

// TestNodesThatAreNoValues: what gorgonia.Read returns, where its argument was meant, made the constructors panic in
// Gorgonia; a constant that is in no graph gave an error without prefix.
func TestNodesThatAreNoValues(t *testing.T) {
	g := gorgonia.NewGraph()
	x, s := node(g, "x", tensor.Float64, 2, 3, 4), node(g, "s", tensor.Float64, 4, 4)
	ids := node(g, "ids", tensor.Int32, 2, 3)
	var v gorgonia.Value
	for want, bad := range map[string]*gorgonia.Node{
		"is a statement, as gorgonia.Read returns it":       gorgonia.Read(x, &v),
		"is in no graph, as gorgonia.NewConstant leaves it": gorgonia.NewConstant(normalOf(1, 4, 4)),
	} {
		for name, build := range map[string]func() (*gorgonia.Node, error){
			"Gather: table":       func() (*gorgonia.Node, error) { return Gather(bad, ids) },
			"Gather: ids":         func() (*gorgonia.Node, error) { return Gather(s, bad) },
			"Linear: x":           func() (*gorgonia.Node, error) { return Linear(bad, s, nil) },
			"Linear: w":           func() (*gorgonia.Node, error) { return Linear(x, bad, nil) },
			"Linear: bias":        func() (*gorgonia.Node, error) { return Linear(x, s, bad) },
			"L2Normalize: x":      func() (*gorgonia.Node, error) { return L2Normalize(bad, 1e-12) },
			"ScaleTokens: x":      func() (*gorgonia.Node, error) { return ScaleTokens(bad, s) },
			"ScaleTokens: w":      func() (*gorgonia.Node, error) { return ScaleTokens(x, bad) },
			"InfoNCE: scores":     func() (*gorgonia.Node, error) { return InfoNCE(bad, InfoNCEConfig{}) },
			"InfoNCE: labels":     func() (*gorgonia.Node, error) { return InfoNCE(s, InfoNCEConfig{Labels: bad}) },
			"InfoNCE: weights":    func() (*gorgonia.Node, error) { return InfoNCE(s, InfoNCEConfig{Weights: bad}) },
			"InfoNCE: exclude":    func() (*gorgonia.Node, error) { return InfoNCE(s, InfoNCEConfig{Exclude: bad}) },
			"KLDistill: scores":   func() (*gorgonia.Node, error) { return KLDistill(bad, s, KLDistillConfig{}) },
			"KLDistill: teacher":  func() (*gorgonia.Node, error) { return KLDistill(s, bad, KLDistillConfig{}) },
			"KLDistill: mask":     func() (*gorgonia.Node, error) { return KLDistill(s, s, KLDistillConfig{Mask: bad}) },
			"NewEmbedding: table": func() (*gorgonia.Node, error) { _, err := NewEmbedding(bad); return nil, err },
			"Grad: loss":          func() (*gorgonia.Node, error) { _, err := Grad(bad, x); return nil, err },
			"Grad: node 1 of wrt": func() (*gorgonia.Node, error) {
				_, err := Grad(gorgonia.Must(gorgonia.Sum(x)), x, bad)
				return nil, err
			},
		} {
			_, err := build()
			wantError(t, err, ErrValue, name+" "+want)
		}
	}
}

// TestRunErrors gives the ops numbers that only a run can find wrong.
func TestRunErrors(t *testing.T) {
	scores := func() input { return input{normalOf(1, 2, 3), true} }
	for _, c := range []struct {
		want    string
		fixture fixture
	}{
		{"Gather: ids[1 2] is 4, expected 0 ≤ id < 4 (rows of the table)", fixture{"", []input{{normalOf(1, 4, 5), true}, {int32s([]int{2, 3}, 0, 1, 2, 3, 0, 4), false}},
			func(in gorgonia.Nodes) (*gorgonia.Node, error) { return Gather(in[0], in[1]) }}},
		{"Gather: ids[1] is -1, expected 0 ≤ id < 4 (rows of the table)", fixture{"", []input{{normalOf(1, 4, 5), true}, {int32s([]int{2}, 0, -1), false}},
			func(in gorgonia.Nodes) (*gorgonia.Node, error) { return Gather(in[0], in[1]) }}},
		{"InfoNCE: label of row 1 is 3, expected -1 (none) or a column of scores (2, 3)", fixture{"", []input{scores(), {int32s([]int{2}, 0, 3), false}},
			func(in gorgonia.Nodes) (*gorgonia.Node, error) { return InfoNCE(in[0], InfoNCEConfig{Labels: in[1]}) }}},
		{"InfoNCE: label of row 0 is -2", fixture{"", []input{scores(), {int32s([]int{2}, -2, 0), false}},
			func(in gorgonia.Nodes) (*gorgonia.Node, error) { return InfoNCE(in[0], InfoNCEConfig{Labels: in[1]}) }}},
		{"InfoNCE: weight of row 1 is -1, expected a finite number ≥ 0", fixture{"", []input{scores(), {floats([]int{2}, 1, -1), false}},
			func(in gorgonia.Nodes) (*gorgonia.Node, error) { return InfoNCE(in[0], InfoNCEConfig{Weights: in[1]}) }}},
		{"InfoNCE: weight of row 1 is +Inf", fixture{"", []input{scores(), {floats([]int{2}, 1, math.Inf(1)), false}},
			func(in gorgonia.Nodes) (*gorgonia.Node, error) { return InfoNCE(in[0], InfoNCEConfig{Weights: in[1]}) }}},
		{"InfoNCE: weight of row 0 is NaN", fixture{"", []input{scores(), {floats([]int{2}, math.NaN(), 1), false}},
			func(in gorgonia.Nodes) (*gorgonia.Node, error) { return InfoNCE(in[0], InfoNCEConfig{Weights: in[1]}) }}},
	} {
		t.Run(c.want, func(t *testing.T) {
			for name, machine := range map[string]func(*gorgonia.ExprGraph) gorgonia.VM{
				"tape": func(g *gorgonia.ExprGraph) gorgonia.VM { return gorgonia.NewTapeMachine(g) },
				"lisp": func(g *gorgonia.ExprGraph) gorgonia.VM { return gorgonia.NewLispMachine(g, gorgonia.ExecuteFwdOnly()) },
			} {
				g, _, _ := c.fixture.graph(t, c.fixture.inputs)
				vm := machine(g)
				err := vm.RunAll()
				vm.Close()
				if err == nil {
					t.Fatalf("%s machine: no error", name)
				}
				wantError(t, Cause(err), ErrValue, c.want)
			}
		})
	}
}

// TestDoChecksAgain hands ops values that are not what the graph promised.
func TestDoChecksAgain(t *testing.T) {
	lin := &op[float64]{linear[float64]{dims: 2}}
	x, w := normalOf(1, 3, 4), normalOf(2, 4, 5)
	grad := &gradOp[float64]{lin.kernel, 0}
	for _, c := range []struct {
		want string
		is   error
		op   gorgonia.Op
		in   []gorgonia.Value
	}{
		{"Linear has 1 inputs, expected 2", ErrShape, lin, []gorgonia.Value{x}},
		{"Linear: input 1 has no value", ErrValue, lin, []gorgonia.Value{x, nil}},
		{"Linear: w has shape (4), expected 2 dimensions", ErrShape, lin, []gorgonia.Value{x, normalOf(2, 4)}},
		{"Linear: w is float32, expected float64", ErrDtype, lin, []gorgonia.Value{x, random(1, 4, 5)}},
		{"Linear: x (3, 4) has vectors of 4, w (3, 5) takes 3", ErrShape, lin, []gorgonia.Value{x, normalOf(2, 3, 5)}},
		{"upstream gradient has shape (3, 4), expected (3, 5)", ErrShape, grad, []gorgonia.Value{x, w, normalOf(3, 3, 4)}},
		{"upstream gradient is float32, expected float64", ErrDtype, grad, []gorgonia.Value{x, w, random(3, 3, 5)}},
		{"no upstream gradient", ErrValue, grad, []gorgonia.Value{x, w, nil}},
		{"∇Linear.x has 2 inputs, expected 3", ErrShape, grad, []gorgonia.Value{x, w}},
	} {
		t.Run(c.want, func(t *testing.T) {
			v, err := c.op.Do(c.in...)
			wantError(t, err, c.is, c.want)
			if v != nil {
				t.Errorf("a value came with the error: %v", v)
			}
		})
	}
}

func TestCauseLeavesOtherErrorsAlone(t *testing.T) {
	err := errors.New("other")
	if Cause(err) != err || Cause(nil) != nil {
		t.Error("Cause changed an error that is not of this package")
	}
}

func wantError(t *testing.T, err, is error, want string) {
	t.Helper()
	if !errors.Is(err, is) {
		t.Fatalf("error is %v, want one that is %v", err, is)
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("error is %q, want it to say %q", err, want)
	}
	if n := strings.Count(err.Error(), "colbert:"); n != 1 {
		t.Errorf("error %q has %d prefixes, want one", err, n)
	}
}
