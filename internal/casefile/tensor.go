package casefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Tensor is a row-major tensor of a case: written out, or a rule that makes it.
type Tensor struct {
	Shape []int
	data  []float64
	rule  *rule
}

// rule is the file's "gen".
type rule struct {
	Kind  string   `json:"kind"`
	Seed  uint64   `json:"seed"`
	Bits  uint     `json:"bits"`
	Scale *float64 `json:"scale"`
	Data  []number `json:"data"`
	Set   []entry  `json:"set"`
}

// Len returns the number of elements.
func (t *Tensor) Len() int {
	n := 1
	for _, size := range t.Shape {
		n *= size
	}
	return n
}

// Values makes a new slice of all elements, row-major.
func Values[T layout.Float](t *Tensor) []T {
	out := make([]T, t.Len())
	if t.rule == nil {
		for at, v := range t.data {
			out[at] = T(v)
		}
		return out
	}
	switch t.rule.Kind {
	case "lcg":
		scale, half := *t.rule.Scale, math.Ldexp(1, int(t.rule.Bits)-1)
		x := t.rule.Seed
		for at := range out {
			x = 6364136223846793005*x + 1442695040888963407
			out[at] = T(scale * (float64(x>>(64-t.rule.Bits))/half - 1))
		}
	case "tile":
		for at := range out {
			out[at] = T(t.rule.Data[at%len(t.rule.Data)])
		}
	}
	for _, e := range t.rule.Set {
		out[e.at] = T(e.value)
	}
	return out
}

// Bools returns the elements of a mask.
func (t *Tensor) Bools() []bool {
	out := make([]bool, t.Len())
	for at, v := range Values[float32](t) {
		out[at] = v != 0
	}
	return out
}

func ones(shape []int) *Tensor {
	return &Tensor{Shape: shape, rule: &rule{Kind: "tile", Data: []number{1}}}
}

// UnmarshalJSON reads a tensor and checks that its elements fill its shape.
func (t *Tensor) UnmarshalJSON(text []byte) error {
	var f struct {
		Shape []int    `json:"shape"`
		Data  []number `json:"data"`
		Rule  *rule    `json:"gen"`
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	t.Shape, t.rule = f.Shape, f.Rule
	if err := checkShape(f.Shape); err != nil {
		return err
	}
	if (f.Data == nil) == (f.Rule == nil) {
		return fmt.Errorf("tensor %v: exactly one of data and gen is needed", f.Shape)
	}
	if t.rule != nil {
		return t.rule.check(t.Len())
	}
	if len(f.Data) != t.Len() {
		return fmt.Errorf("tensor %v: %d elements given, %d needed", f.Shape, len(f.Data), t.Len())
	}
	t.data = make([]float64, len(f.Data))
	for at, v := range f.Data {
		t.data[at] = float64(v)
	}
	return nil
}

func checkShape(shape []int) error {
	if len(shape) == 0 {
		return errors.New("tensor: shape is missing")
	}
	for _, size := range shape {
		if size < 0 {
			return fmt.Errorf("tensor %v: negative size", shape)
		}
	}
	return nil
}

// check completes the rule's defaults and reports what it cannot make n elements of.
func (r *rule) check(n int) error {
	if r.Bits == 0 {
		r.Bits = 24
	}
	if r.Scale == nil {
		one := 1.0
		r.Scale = &one
	}
	switch r.Kind {
	case "lcg":
		if r.Bits > 53 {
			return fmt.Errorf("gen: %d bits, at most 53 are exact in float64", r.Bits)
		}
	case "tile":
		if len(r.Data) == 0 {
			return errors.New("gen: tile without data")
		}
	case "zeros":
	default:
		return fmt.Errorf("gen.kind %q is not lcg, tile or zeros", r.Kind)
	}
	for _, e := range r.Set {
		if e.at < 0 || e.at >= n {
			return fmt.Errorf("gen.set: index %d of %d elements", e.at, n)
		}
	}
	return nil
}

// entry is one [flat index, value].
type entry struct {
	at    int
	value number
}

// UnmarshalJSON reads [flat index, value].
func (e *entry) UnmarshalJSON(text []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("%s: want [flat index, value]", text)
	}
	if err := json.Unmarshal(pair[0], &e.at); err != nil {
		return err
	}
	return json.Unmarshal(pair[1], &e.value)
}

// number is a JSON number, or a string for what JSON has no number for.
type number float64

// UnmarshalJSON reads a number, "NaN", "Infinity" or "-Infinity".
func (n *number) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"NaN"`:
		*n = number(math.NaN())
		return nil
	case `"Infinity"`:
		*n = number(math.Inf(1))
		return nil
	case `"-Infinity"`:
		*n = number(math.Inf(-1))
		return nil
	}
	if text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return fmt.Errorf(`%s is not a number, "NaN", "Infinity" or "-Infinity"`, text)
	}
	return json.Unmarshal(text, (*float64)(n))
}
