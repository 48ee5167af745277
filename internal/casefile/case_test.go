package casefile

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// valid is a small case that every test of an error changes in one place.
const valid = `{"name": "c", "layout": "paired", "q": {"shape": [1,1,2], "data": [1,2]}, "d": {"shape": [1,2,2], "data": [1,2,3,"NaN"]},
 "masks": {"q": null, "d": {"shape": [1,2], "data": [1,0]}}, "options": {}, "upstream_grad": {"shape": [1], "data": [1]},
 "expect": {"scores": {"shape": [1], "data": [5]}, "argmax": {"shape": [1,1], "data": [0]}}}`

func TestEveryCommittedCaseLoads(t *testing.T) {
	cases, err := LoadDir(filepath.Join("..", "..", "testdata", "cases"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, c := range cases {
		kinds[c.Kind] = true
		for n := range c.Steps {
			if _, err := c.Batch(&c.Steps[n]); (err != nil) != (c.ErrorReason != "") {
				t.Errorf("%s, step %d: Batch returned %v, the file's reason for an error is %q", c.Name, n, err, c.ErrorReason)
			}
		}
	}
	if len(cases) < 17 || len(kinds) < 10 {
		t.Errorf("%d cases of %d kinds, want all of the folder's", len(cases), len(kinds))
	}
}

func TestLCG(t *testing.T) {
	for _, test := range []struct {
		text string
		want []float64
	}{
		{`{"shape": [3], "gen": {"kind": "lcg", "seed": 7}}`, []float64{-0.013575553894042969, 0.9113190174102783, 0.8131515979766846}},
		{`{"shape": [2], "gen": {"kind": "lcg", "seed": 5, "bits": 8}}`, []float64{0.6015625, -0.7265625}},
		{`{"shape": [2], "gen": {"kind": "lcg", "seed": 5, "bits": 8, "scale": 2}}`, []float64{1.203125, -1.453125}},
	} {
		var x Tensor
		if err := x.UnmarshalJSON([]byte(test.text)); err != nil {
			t.Fatal(err)
		}
		if got := Values[float64](&x); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.text, got, test.want)
		}
		for at, v := range Values[float32](&x) {
			if float64(v) != test.want[at] {
				t.Errorf("%s: element %d is not exact in float32", test.text, at)
			}
		}
	}
}

func TestTileZerosAndSet(t *testing.T) {
	var x Tensor
	if err := x.UnmarshalJSON([]byte(`{"shape": [2,3], "gen": {"kind": "tile", "data": [1,"Infinity"], "set": [[4,-7],[1,"-Infinity"]]}}`)); err != nil {
		t.Fatal(err)
	}
	inf := math.Inf(1)
	if got, want := Values[float64](&x), []float64{1, -inf, 1, inf, -7, inf}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := x.UnmarshalJSON([]byte(`{"shape": [3], "gen": {"kind": "zeros", "set": [[2,1.5]]}}`)); err != nil {
		t.Fatal(err)
	}
	if got, want := Values[float32](&x), []float32{0, 0, 1.5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestStepsTakeOverWhatTheyLeaveOut(t *testing.T) {
	text := strings.TrimSuffix(strings.Replace(valid, `"masks": {"q": null, "d": {"shape": [1,2], "data": [1,0]}},`, "", 1), "}") +
		`, "then": [{"q": {"shape": [1,1,2], "data": [3,4]}, "masks": {"q": null, "d": {"shape": [1,2], "data": [0,1]}}},
		            {"masks": {"q": {"shape": [1,1], "data": [0]}, "d": null}, "expect": {"scores": {"shape": [1], "data": [0]}}}]}`
	c, err := parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Steps) != 3 {
		t.Fatalf("%d steps, want 3", len(c.Steps))
	}
	for n, want := range []struct{ q, maskQ, maskD []float64 }{
		{[]float64{1, 2}, []float64{1}, []float64{1, 1}},
		{[]float64{3, 4}, []float64{1}, []float64{0, 1}},
		{[]float64{3, 4}, []float64{0}, []float64{1, 1}},
	} {
		s := c.Steps[n]
		for _, x := range []struct {
			name string
			got  *Tensor
			want []float64
		}{{"q", s.Q, want.q}, {"masks.q", s.MaskQ, want.maskQ}, {"masks.d", s.MaskD, want.maskD}} {
			if got := Values[float64](x.got); !slices.Equal(got, x.want) {
				t.Errorf("step %d, %s: got %v, want %v", n, x.name, got, x.want)
			}
		}
	}
	if c.Steps[1].Expect.Argmax == nil || c.Steps[2].Expect.Argmax != nil {
		t.Error("a step's own expect must replace the one before, and only then")
	}
}

func TestFilesThatSayNothingClearAreErrors(t *testing.T) {
	for _, test := range []struct{ old, new, want string }{
		{`"layout": "paired"`, `"layout": "pairwise"`, `layout "pairwise"`},
		{`"name": "c",`, ``, "name is missing"},
		{`"data": [1,2]}, "d"`, `"data": [1]}, "d"`, "1 elements given, 2 needed"},
		{`"data": [1,2]}, "d"`, `"data": [1,"nan"]}, "d"`, `"nan" is not a number`},
		{`"data": [1,2]}, "d"`, `"data": [1,null]}, "d"`, `null is not a number`},
		{`"data": [1,2]}, "d"`, `"gen": {"kind": "random"}}, "d"`, `gen.kind "random"`},
		{`"data": [1,2]}, "d"`, `"gen": {"kind": "tile"}}, "d"`, "tile without data"},
		{`"data": [1,2]}, "d"`, `"gen": {"kind": "zeros", "set": [[2,1]]}}, "d"`, "index 2 of 2"},
		{`"data": [1,0]}}`, `"data": [1,0.5]}}`, "masks.d: element 1 is 0.5"},
		{`"options": {}`, `"options": {"tolerance": 1}`, "tolerance"},
		{`"options": {}`, `"options": {"dtype": "int8"}`, `dtype "int8"`},
		{`"options": {}`, `"options": {"storage": {"d": [0,2]}}`, "storage.d"},
		{`"options": {}`, `"options": {"loss": {"name": "mse"}}`, `"mse"`},
		{`"upstream_grad": {"shape": [1], "data": [1]},`, ``, ""},
		{`"expect": {`, `"expect": {"dq": {"shape": [1,1,2], "data": [1,2]}, `, ""},
		{`"scores": {"shape": [1], "data": [5]}, `, ``, "expect.scores is missing"},
		{`"scores": {"shape": [1], "data": [5]}`, `"scores": {"shape": [1]}`, "nothing to compare"},
		{`"scores": {"shape": [1], "data": [5]}`, `"scores": {"shape": [1], "probes": [[1,5]]}`, "probe of element 1"},
	} {
		text := strings.Replace(valid, test.old, test.new, 1)
		if text == valid {
			t.Fatalf("%q is not in the case", test.old)
		}
		_, err := parse([]byte(text))
		if test.want == "" {
			if err != nil {
				t.Errorf("%s: unexpected error %v", test.new, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.new, err, test.want)
		}
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(path, []byte(valid), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, load := range []func() error{
		func() error { _, err := Load(path); return err },
		func() error { _, err := LoadDir(filepath.Dir(path)); return err },
	} {
		if err := load(); err == nil || !strings.Contains(err.Error(), "other.json") {
			t.Errorf("error %v, want one that names other.json", err)
		}
	}
	if _, err := LoadDir(t.TempDir()); err == nil {
		t.Error("an empty folder is no error")
	}
}

func TestStorage(t *testing.T) {
	for _, text := range []string{`{"storage": [1,0,2]}`, `{"storage": {"q": [1,0,2], "d": [1,0,2]}}`} {
		o, err := parseOptions([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"q", "d"} {
			if got, want := o.Storage[name], []int{1, 0, 2}; !slices.Equal(got, want) {
				t.Errorf("%s: %s is stored as %v, want %v", text, name, got, want)
			}
		}
	}
}

func TestBatchOfShapesThatDoNotFit(t *testing.T) {
	x := func(shape ...int) *Tensor { return &Tensor{Shape: shape, rule: &rule{Kind: "zeros"}} }
	for _, test := range []struct {
		name string
		c    Case
		s    Step
	}{
		{"rank", Case{Layout: AllPairs}, Step{Q: x(2, 3), D: x(2, 3, 4)}},
		{"dim", Case{Layout: AllPairs}, Step{Q: x(2, 3, 4), D: x(2, 3, 5)}},
		{"pairs", Case{Layout: Paired}, Step{Q: x(2, 3, 4), D: x(3, 3, 4)}},
		{"candidates", Case{Layout: Candidates, Options: Options{Candidates: 2}}, Step{Q: x(2, 3, 4), D: x(5, 3, 4)}},
		{"no candidates", Case{Layout: Candidates}, Step{Q: x(2, 3, 4), D: x(4, 3, 4)}},
		{"mask", Case{Layout: AllPairs}, Step{Q: x(2, 3, 4), D: x(2, 3, 4), MaskD: x(3, 2)}},
		{"offsets begin", Case{Layout: Packed}, Step{Q: x(3, 4), D: x(3, 4), CuQ: []int{0, 3}, CuD: []int{1, 3}}},
		{"offsets decrease", Case{Layout: Packed}, Step{Q: x(3, 4), D: x(3, 4), CuQ: []int{0, 2, 1}, CuD: []int{0, 3}}},
		{"offsets end", Case{Layout: Packed}, Step{Q: x(3, 4), D: x(3, 4), CuQ: []int{0, 3}, CuD: []int{0, 4}}},
	} {
		if _, err := test.c.Batch(&test.s); err == nil {
			t.Errorf("%s: no error", test.name)
		}
	}
}

func TestArgmaxOfPacked(t *testing.T) {
	c := Case{Layout: Packed}
	b := &layout.Batch{Q: layout.Packed(4, []int{0, 2, 3}), D: layout.Packed(2, []int{0, 1, 2}), Dim: 1}
	// Tape: query 0 with document 0 (t 0, 1), with document 1 (t 0, 1), query 1 with both, the capacity row.
	got := c.ArgmaxOf(b, []int32{1, 2, 3, 4, 5, 6, -1, -1})
	if want := []int32{1, 3, 2, 4, 5, 6, -1, -1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCompareFindsEveryDifference(t *testing.T) {
	expected := func(text string) *Expected {
		e := new(Expected)
		if err := e.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return e
	}
	nan, inf := math.NaN(), math.Inf(1)
	tol := Tol{ATol: 0.1}
	for _, test := range []struct {
		got  []float64
		want string
		tol  Tol
		ok   bool
	}{
		{[]float64{1, 2}, `{"shape": [2], "data": [1,2]}`, Exact, true},
		{[]float64{1, 2.05}, `{"shape": [2], "data": [1,2]}`, Exact, false},
		{[]float64{1, 2.05}, `{"shape": [2], "data": [1,2]}`, tol, true},
		{[]float64{1, 2.2}, `{"shape": [2], "data": [1,2]}`, tol, false},
		{[]float64{1, 2.2}, `{"shape": [2], "data": [1,null]}`, tol, true},
		{[]float64{1}, `{"shape": [2], "data": [1,2]}`, tol, false},
		{[]float64{nan, inf}, `{"shape": [2], "data": ["NaN","Infinity"]}`, tol, true},
		{[]float64{1, inf}, `{"shape": [2], "data": ["NaN","Infinity"]}`, tol, false},
		{[]float64{nan, -inf}, `{"shape": [2], "data": ["NaN","Infinity"]}`, tol, false},
		{[]float64{nan, 2}, `{"shape": [2], "data": [1,2]}`, tol, false},
		{[]float64{3, 0}, `{"shape": [2], "probes": [[0,3]], "sum": 3, "sumsq": 9, "nonzero": 1}`, Exact, true},
		{[]float64{3, 1}, `{"shape": [2], "probes": [[0,3]], "nonzero": 1}`, Exact, false},
		{[]float64{3, 1}, `{"shape": [2], "probes": [[0,3]], "sum": 3}`, tol, false},
		{[]float64{3, 1}, `{"shape": [2], "probes": [[0,3]], "sumsq": 9}`, tol, false},
		{[]float64{3, nan}, `{"shape": [2], "probes": [[0,3]], "sum": 3}`, tol, false},
		{[]float64{0, 0}, `{"shape": [2], "gen": {"kind": "zeros"}}`, Exact, true},
		{[]float64{0, 1}, `{"shape": [2], "gen": {"kind": "zeros"}}`, Exact, false},
	} {
		if err := Compare("x", test.got, expected(test.want), test.tol); (err == nil) != test.ok {
			t.Errorf("%v against %s: %v", test.got, test.want, err)
		}
	}
}
