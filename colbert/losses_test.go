package colbert

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// lossAndGradient runs a loss and its gradient by input 0 on a TapeMachine.
func lossAndGradient(t *testing.T, inputs []input, build func(in gorgonia.Nodes) (*gorgonia.Node, error)) (float64, []float64) {
	t.Helper()
	f := fixture{t.Name(), inputs, build}
	return f.forward(t, inputs)[0], f.gradients(t, "tape", inputs, []float64{1})[0]
}

// TestCases runs the losses of the shared cases on the scores that they expect.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("../testdata/cases/*.json")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c lossCase
		if json.Unmarshal(raw, &c) != nil || c.Kind != "loss" { // other kinds hold what JSON numbers cannot
			continue
		}
		ran++
		t.Run(c.Name, c.run)
	}
	if ran < 2 {
		t.Errorf("%d cases of kind loss in testdata, want 2 at least", ran)
	}
}

// lossCase is what a case of kind loss says about the loss.
type lossCase struct {
	Name, Kind string
	Options    struct {
		Loss struct {
			Name        string
			Temperature float64
			Labels      []int32
			Teacher     array
		}
	}
	Upstream array `json:"upstream_grad"`
	Expect   struct {
		Scores array
		Loss   float64
	}
}

type array struct {
	Shape []int
	Data  []float64
}

func (c lossCase) run(t *testing.T) {
	loss := c.Options.Loss
	for _, dt := range []tensor.Dtype{tensor.Float32, tensor.Float64} {
		inputs := []input{{cast(floats(c.Expect.Scores.Shape, c.Expect.Scores.Data...), dt), true}}
		var build func(in gorgonia.Nodes) (*gorgonia.Node, error)
		switch loss.Name {
		case "infonce":
			inputs = append(inputs, input{int32s([]int{len(loss.Labels)}, loss.Labels...), false})
			build = func(in gorgonia.Nodes) (*gorgonia.Node, error) {
				return InfoNCE(in[0], InfoNCEConfig{Temperature: loss.Temperature, Labels: in[1]})
			}
		case "kd_kl":
			inputs = append(inputs, input{cast(floats(loss.Teacher.Shape, loss.Teacher.Data...), dt), false})
			build = func(in gorgonia.Nodes) (*gorgonia.Node, error) {
				return KLDistill(in[0], in[1], KLDistillConfig{Temperature: loss.Temperature})
			}
		default:
			t.Fatalf("unknown loss %q", loss.Name)
		}
		got, ds := lossAndGradient(t, inputs, build)
		if !close(got, c.Expect.Loss, 1e-5) {
			t.Errorf("%v: loss %v, want %v", dt, got, c.Expect.Loss)
		}
		for i, want := range c.Upstream.Data {
			// The gradient is a probability over T·rows: a rounding of the scores by 2⁻²⁴·10 moves the logits by 3e-5.
			if !close(ds[i], want, 1e-4) {
				t.Errorf("%v: gradient at %d is %v, want %v", dt, i, ds[i], want)
			}
		}
	}
}

func close(got, want, tol float64) bool { return math.Abs(got-want) <= tol+tol*math.Abs(want) }

// TestInfoNCEEdges: rows and entries that the documentation gives a meaning of their own.
func TestInfoNCEEdges(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	log := math.Log
	e := math.Exp
	for _, c := range []struct {
		name    string
		scores  []float64 // [2,2]
		labels  []int32
		weights []float64
		loss    float64
		grad    []float64
	}{
		{"plain", []float64{1, 0, 0, 0}, []int32{0, 1}, []float64{1, 1}, (log(1+e(-1)) + log(2)) / 2,
			[]float64{-e(-1) / (1 + e(-1)) / 2, e(-1) / (1 + e(-1)) / 2, 0.25, -0.25}},
		{"padding row, whatever it holds", []float64{0, 0, nan, inf}, []int32{0, 1}, []float64{2, 0}, log(2), []float64{-0.5, 0.5, 0, 0}},
		{"row without label", []float64{0, 0, nan, 1}, []int32{0, -1}, []float64{1, 1}, log(2), []float64{-0.5, 0.5, 0, 0}},
		{"no row counts", []float64{0, 0, 1, 1}, []int32{-1, 0}, []float64{1, 0}, 0, []float64{0, 0, 0, 0}},
		{"negative with score -Inf", []float64{0, -inf, 0, 0}, []int32{0, 1}, []float64{1, 1}, log(2) / 2, []float64{0, 0, 0.25, -0.25}},
		{"label with score -Inf", []float64{-inf, 0, 0, 0}, []int32{0, 1}, []float64{1, 1}, inf, []float64{-0.5, 0.5, 0.25, -0.25}},
		{"row of -Inf", []float64{-inf, -inf, 0, 0}, []int32{0, 1}, []float64{1, 1}, log(2), []float64{0, 0, 0.5, -0.5}},
		{"NaN in a row that counts", []float64{0, nan, 0, 0}, []int32{0, 1}, []float64{1, 1}, nan, []float64{nan, nan, 0.25, -0.25}},
		{"huge scores", []float64{1e300, -1e300, 0, 0}, []int32{0, 1}, []float64{1, 1}, log(2) / 2, []float64{0, 0, 0.25, -0.25}},
		{"huge equal scores", []float64{1e300, 1e300, 0, 0}, []int32{0, 1}, []float64{1, 1}, log(2), []float64{-0.25, 0.25, 0.25, -0.25}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inputs := []input{{floats([]int{2, 2}, c.scores...), true}, {int32s([]int{2}, c.labels...), false}, {floats([]int{2}, c.weights...), false}}
			k := infoNCE[float64]{temperature: 1, stride: 1, labelled: true, weighted: true}
			values := []gorgonia.Value{inputs[0].value, inputs[1].value, inputs[2].value}
			loss, err := evaluate(k, values)
			if err != nil {
				t.Fatal(err)
			}
			if got := float64s(loss)[0]; !same(got, c.loss) {
				t.Errorf("loss %v, want %v", got, c.loss)
			}
			grad, err := differentiate(k, 0, values, gorgonia.NewF64(1))
			if err != nil {
				t.Fatal(err)
			}
			for i, got := range grad.Float64s() {
				if !same(got, c.grad[i]) {
					t.Errorf("gradient at %d is %v, want %v", i, got, c.grad[i])
				}
			}
		})
	}
}

// same is equality up to rounding in which NaN and the infinities are equal to themselves.
func same(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) < 1e-14
}

// TestInfoNCEExclude: an excluded document might as well not be there, and an excluded label stays.
func TestInfoNCEExclude(t *testing.T) {
	exclude := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]bool{true, false, true, false, true, false}))
	loss, ds := lossAndGradient(t, []input{{floats([]int{2, 3}, 1, 2, 1e9, 4, 5, 6), true}, {exclude, false}},
		func(in gorgonia.Nodes) (*gorgonia.Node, error) { return InfoNCE(in[0], InfoNCEConfig{Exclude: in[1]}) })
	want := (math.Log(1+math.Exp(1)) + math.Log(1+math.Exp(-1)+math.Exp(1))) / 2
	if !close(loss, want, 1e-14) {
		t.Errorf("loss %v, want %v", loss, want)
	}
	if ds[2] != 0 {
		t.Errorf("an excluded document has gradient %v", ds[2])
	}
}

// TestInfoNCEPadding: a padded batch has the loss and the gradients of the batch without padding, in both directions.
func TestInfoNCEPadding(t *testing.T) {
	x := normalOf(1, 3, 4).Float64s()
	padded := make([]float64, 5*6)
	for i := range padded {
		padded[i] = 50 // scores of padding: anything
	}
	for i := range 3 {
		copy(padded[i*6:], x[i*4:(i+1)*4])
	}
	weights := floats([]int{5}, 1, 1, 1, 0, 0)
	for _, symmetric := range []bool{false, true} {
		want, dx := lossAndGradient(t, []input{{floats([]int{3, 4}, x...), true}}, func(in gorgonia.Nodes) (*gorgonia.Node, error) {
			return InfoNCE(in[0], InfoNCEConfig{Symmetric: symmetric})
		})
		got, dp := lossAndGradient(t, []input{{floats([]int{5, 6}, padded...), true}, {weights, false}, {int32s([]int{6}, 0, 0, 0, 0, 1, 1), false}},
			func(in gorgonia.Nodes) (*gorgonia.Node, error) {
				return InfoNCE(in[0], InfoNCEConfig{Symmetric: symmetric, Weights: in[1], Exclude: in[2]})
			})
		if !close(got, want, 1e-14) {
			t.Errorf("symmetric %v: loss %v, without padding %v", symmetric, got, want)
		}
		for i, g := range dp {
			want := 0.0
			if i/6 < 3 && i%6 < 4 {
				want = dx[i/6*4+i%6]
			}
			if !close(g, want, 1e-14) {
				t.Errorf("symmetric %v: gradient at %d is %v, want %v", symmetric, i, g, want)
			}
		}
	}
}

// TestInfoNCESymmetric: on a square batch it is the mean of the loss and the loss of the transposed scores, with what is
// excluded transposed as well.
func TestInfoNCESymmetric(t *testing.T) {
	x, exclude := normalOf(1, 5, 5), int32s([]int{5, 5}, make([]int32, 25)...)
	xt, excludeT := normalOf(1, 5, 5), int32s([]int{5, 5}, make([]int32, 25)...)
	for i := range 5 {
		for j := range 5 {
			if (2*i+j)%4 == 0 {
				exclude.Int32s()[i*5+j], excludeT.Int32s()[j*5+i] = 1, 1
			}
			xt.Float64s()[j*5+i] = x.Float64s()[i*5+j]
		}
	}
	loss := func(scores, exclude *tensor.Dense, symmetric bool) float64 {
		l, _ := lossAndGradient(t, []input{{scores, true}, {exclude, false}}, func(in gorgonia.Nodes) (*gorgonia.Node, error) {
			return InfoNCE(in[0], InfoNCEConfig{Temperature: 0.3, Symmetric: symmetric, Exclude: in[1]})
		})
		return l
	}
	both := loss(x, exclude, true)
	if want := (loss(x, exclude, false) + loss(xt, excludeT, false)) / 2; !close(both, want, 1e-14) {
		t.Errorf("symmetric loss %v, mean of both directions %v", both, want)
	}
}

// TestInfoNCESymmetricColumnOfInf: a document that no query scores has nothing to choose from, and adds no NaN.
func TestInfoNCESymmetricColumnOfInf(t *testing.T) {
	inf := math.Inf(1)
	k := infoNCE[float64]{temperature: 1, stride: 1, symmetric: true}
	scores := []gorgonia.Value{floats([]int{2, 2}, -inf, 0, -inf, 0)}
	loss, err := evaluate(k, scores)
	if err != nil {
		t.Fatal(err)
	}
	if got := float64s(loss)[0]; got != inf {
		t.Errorf("loss is %v, want +Inf: row 0 wants a document with score -Inf", got)
	}
	ds, err := differentiate(k, 0, scores, gorgonia.NewF64(1))
	if err != nil {
		t.Fatal(err)
	}
	// Each direction of each row has a quarter of the weight: row 0 wants document 0, row 1 has what it wants, document 1
	// wavers between both queries.
	for i, want := range []float64{-0.25, 0.25 + 0.125, 0, -0.125} {
		if got := ds.Float64s()[i]; !same(got, want) {
			t.Errorf("gradient at %d is %v, want %v", i, got, want)
		}
	}
}

// TestInfoNCEOfOnePair: nothing to choose from, at any temperature.
func TestInfoNCEOfOnePair(t *testing.T) {
	for _, symmetric := range []bool{false, true} {
		loss, ds := lossAndGradient(t, []input{{floats([]int{1, 1}, 37), true}}, func(in gorgonia.Nodes) (*gorgonia.Node, error) {
			return InfoNCE(in[0], InfoNCEConfig{Temperature: 0.02, Symmetric: symmetric})
		})
		if loss != 0 || ds[0] != 0 {
			t.Errorf("loss %v, gradient %v, want 0 and 0", loss, ds[0])
		}
	}
}

func TestKLDistillEdges(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	log := math.Log
	for _, c := range []struct {
		name            string
		scores, teacher []float64 // [2,2]
		mask            []bool
		loss            float64
		grad            []float64
	}{
		{"equal", []float64{1, 2, 3, 4}, []float64{11, 12, 7, 8}, []bool{true, true, true, true}, 0, []float64{0, 0, 0, 0}},
		{"plain", []float64{0, 0, 0, 0}, []float64{0, log(3), 0, 0}, []bool{true, true, true, true},
			(0.25*log(0.5) + 0.75*log(1.5)) / 2, []float64{0.125, -0.125, 0, 0}},
		{"one candidate", []float64{5, nan, 0, 0}, []float64{-3, nan, 0, log(3)}, []bool{true, false, true, true},
			(0.25*log(0.5) + 0.75*log(1.5)) / 2, []float64{0, 0, 0.125, -0.125}},
		{"row without candidates", []float64{nan, inf, 0, 0}, []float64{nan, nan, 0, log(3)}, []bool{false, false, true, true},
			0.25*log(0.5) + 0.75*log(1.5), []float64{0, 0, 0.25, -0.25}},
		{"no row counts", []float64{nan, inf, 0, 0}, []float64{nan, nan, -inf, -inf}, []bool{false, false, true, true}, 0, []float64{0, 0, 0, 0}},
		{"teacher excludes a candidate", []float64{0, 0, 0, 0}, []float64{0, -inf, 0, 0}, []bool{true, true, true, true}, log(2) / 2, []float64{-0.25, 0.25, 0, 0}},
		{"student excludes a candidate", []float64{0, -inf, 0, 0}, []float64{0, 0, 0, 0}, []bool{true, true, true, true}, inf, []float64{0.25, -0.25, 0, 0}},
		{"NaN", []float64{0, nan, 0, 0}, []float64{0, 0, 0, 0}, []bool{true, true, true, true}, nan, []float64{nan, nan, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := klDistill[float64]{temperature: 1, masked: true, mask: tensor.Bool}
			values := []gorgonia.Value{floats([]int{2, 2}, c.scores...), floats([]int{2, 2}, c.teacher...),
				tensor.New(tensor.WithShape(2, 2), tensor.WithBacking(c.mask))}
			loss, err := evaluate(k, values)
			if err != nil {
				t.Fatal(err)
			}
			if got := float64s(loss)[0]; !same(got, c.loss) {
				t.Errorf("loss %v, want %v", got, c.loss)
			}
			grad, err := differentiate(k, 0, values, gorgonia.NewF64(1))
			if err != nil {
				t.Fatal(err)
			}
			for i, got := range grad.Float64s() {
				if !same(got, c.grad[i]) {
					t.Errorf("gradient at %d is %v, want %v", i, got, c.grad[i])
				}
			}
		})
	}
}

// TestMaskDtypes: a mask means the same in every dtype it can have, and holds nothing but 0 and 1. A mask of uint16 was
// once refused with an error that asked for "bool, an integer or a float".
func TestMaskDtypes(t *testing.T) {
	want := []bool{true, false, true, true}
	for _, mask := range []any{
		[]bool{true, false, true, true}, []int{1, 0, 1, 1}, []int8{1, 0, 1, 1}, []int16{1, 0, 1, 1}, []int32{1, 0, 1, 1},
		[]int64{1, 0, 1, 1}, []uint{1, 0, 1, 1}, []uint8{1, 0, 1, 1}, []uint16{1, 0, 1, 1}, []uint32{1, 0, 1, 1},
		[]uint64{1, 0, 1, 1}, []float32{1, 0, 1, 1}, []float64{1, 0, 1, 1},
	} {
		got, err := flags(tensor.New(tensor.WithShape(2, 2), tensor.WithBacking(mask)))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%T: %v, %v, want %v", mask, got, err, want)
		}
	}
	for _, x := range []float64{0.5, -1, 2, math.NaN()} {
		_, err := flags(floats([]int{2, 2}, 1, 0, x, 1))
		wantError(t, err, ErrValue, fmt.Sprintf("mask[1 0] is %v, expected 0 or 1", x))
	}
}

// TestL2NormalizeEpsilon: what happens at and below epsilon, for zero vectors and for NaN.
func TestL2NormalizeEpsilon(t *testing.T) {
	nan := math.NaN()
	k := l2normalize[float64]{dims: 2, eps: 1e-3}
	x := floats([]int{5, 2}, 0, 0, 3e-4, 4e-4, 3, 4, nan, 1, -0.6, 0.8)
	g := floats([]int{5, 2}, 1, 1, 1, 1, 5, 0, 1, 1, 0, 0)
	y, err := evaluate(k, []gorgonia.Value{x})
	if err != nil {
		t.Fatal(err)
	}
	dx, err := differentiate(k, 0, []gorgonia.Value{x}, g)
	if err != nil {
		t.Fatal(err)
	}
	wantY := []float64{0, 0, 0.3, 0.4, 0.6, 0.8, nan, nan, -0.6, 0.8}
	wantDx := []float64{0, 0, 1e3, 1e3, 0.64, -0.48, nan, nan, 0, 0}
	for i := range wantY {
		if got := float64s(y)[i]; !same(got, wantY[i]) {
			t.Errorf("output %d is %v, want %v", i, got, wantY[i])
		}
		if got := dx.Float64s()[i]; !same(got/1e3, wantDx[i]/1e3) {
			t.Errorf("gradient %d is %v, want %v", i, got, wantDx[i])
		}
	}
}

// FuzzInfoNCE: whatever the scores, the loss is not negative and the gradient of each row sums to 0, or NaN was there.
func FuzzInfoNCE(f *testing.F) {
	f.Add([]byte{0, 1, 2, 253, 254, 255}, uint8(2), true)
	f.Add([]byte{7}, uint8(1), false)
	f.Fuzz(func(t *testing.T, b []byte, rows uint8, symmetric bool) {
		bq := int(rows%5) + 1
		bd := len(b) / bq
		if bd < bq {
			return
		}
		x := make([]float64, bq*bd)
		nan := false
		for i := range x {
			switch b[i] {
			case 255:
				x[i] = math.NaN()
			case 254:
				x[i] = math.Inf(1)
			case 253:
				x[i] = math.Inf(-1)
			default:
				x[i] = float64(b[i]) - 126
			}
			nan = nan || b[i] >= 254
		}
		k := infoNCE[float64]{temperature: 0.02, stride: 1, symmetric: symmetric}
		scores := floats([]int{bq, bd}, x...)
		loss, err := evaluate(k, []gorgonia.Value{scores})
		if err != nil {
			t.Fatal(err)
		}
		if got := float64s(loss)[0]; !(got >= 0) && !nan && !math.IsInf(slices.Min(x), -1) {
			t.Errorf("loss is %v", got)
		}
		ds, err := differentiate(k, 0, []gorgonia.Value{scores}, gorgonia.NewF64(1))
		if err != nil {
			t.Fatal(err)
		}
		for i := range bq {
			sum := 0.0
			for _, v := range ds.Float64s()[i*bd : (i+1)*bd] {
				sum += v
			}
			if !symmetric && !nan && !(math.Abs(sum) < 1e-9) {
				t.Errorf("gradient of row %d sums to %v", i, sum)
			}
		}
	})
}
