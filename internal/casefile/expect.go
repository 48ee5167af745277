package casefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Expect is what must come out. A nil field is not checked.
type Expect struct {
	Scores     *Expected `json:"scores"`
	MeanScores *Expected `json:"mean_scores"` // over max(1, number of valid query tokens)
	Argmax     *Expected `json:"argmax"`
	DQ         *Expected `json:"dq"`
	DD         *Expected `json:"dd"`
	Loss       *number   `json:"loss"`

	// MinMargin is the smallest gap between the best and the second best similarity.
	MinMargin float64 `json:"min_margin"`

	Tol *struct {
		RTol     *float64 `json:"rtol"`
		ATol     *float64 `json:"atol"`
		GradRTol *float64 `json:"grad_rtol"`
		GradATol *float64 `json:"grad_atol"`
	} `json:"tol"`
}

// Tol bounds |x - expected| by ATol + RTol·|expected|.
type Tol struct{ ATol, RTol float64 }

// Exact is the tolerance of an argmax.
var Exact = Tol{}

// ScoreTol is the tolerance of scores and of the loss.
func (e *Expect) ScoreTol() Tol {
	tol := Tol{ATol: 1e-5, RTol: 1e-5}
	if e.Tol != nil {
		override(&tol.ATol, e.Tol.ATol)
		override(&tol.RTol, e.Tol.RTol)
	}
	return tol
}

// GradTol is the tolerance of gradients.
func (e *Expect) GradTol() Tol {
	tol := e.ScoreTol()
	if e.Tol != nil {
		override(&tol.ATol, e.Tol.GradATol)
		override(&tol.RTol, e.Tol.GradRTol)
	}
	return tol
}

func override(tol, by *float64) {
	if by != nil {
		*tol = *by
	}
}

// LossValue returns the expected loss, if there is one.
func (e *Expect) LossValue() (float64, bool) {
	if e.Loss == nil {
		return 0, false
	}
	return float64(*e.Loss), true
}

// allows reports whether got is as good as want. NaN and infinities want themselves.
func (tol Tol) allows(got, want float64) bool {
	switch {
	case math.IsNaN(want):
		return math.IsNaN(got)
	case math.IsInf(want, 0):
		return got == want
	default:
		return math.Abs(got-want) <= tol.ATol+tol.RTol*math.Abs(want)
	}
}

// Expected is an expected tensor: all elements, or a few of them and sums over all.
type Expected struct {
	Shape  []int
	probes []entry // every element but those not checked, unless sums are given

	sum, sumSq *number
	nonzero    *int
}

// UnmarshalJSON reads data, gen or probes; a null in data is not checked.
func (e *Expected) UnmarshalJSON(text []byte) error {
	var f struct {
		Shape   []int     `json:"shape"`
		Data    []*number `json:"data"`
		Rule    *rule     `json:"gen"`
		Probes  []entry   `json:"probes"`
		Sum     *number   `json:"sum"`
		SumSq   *number   `json:"sumsq"`
		Nonzero *int      `json:"nonzero"`
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	if err := checkShape(f.Shape); err != nil {
		return err
	}
	e.Shape, e.probes, e.sum, e.sumSq, e.nonzero = f.Shape, f.Probes, f.Sum, f.SumSq, f.Nonzero
	whole := Tensor{Shape: f.Shape, rule: f.Rule}
	switch {
	case f.Data != nil && f.Rule == nil && f.Probes == nil:
		if len(f.Data) != whole.Len() {
			return fmt.Errorf("tensor %v: %d elements given, %d needed", f.Shape, len(f.Data), whole.Len())
		}
		for at, v := range f.Data {
			if v != nil {
				e.probes = append(e.probes, entry{at, *v})
			}
		}
	case f.Rule != nil && f.Data == nil && f.Probes == nil:
		if err := f.Rule.check(whole.Len()); err != nil {
			return err
		}
		for at, v := range Values[float64](&whole) {
			e.probes = append(e.probes, entry{at, number(v)})
		}
	case f.Data != nil || f.Rule != nil:
		return fmt.Errorf("tensor %v: only one of data, gen and probes can be given", f.Shape)
	case f.Probes == nil && f.Sum == nil && f.SumSq == nil && f.Nonzero == nil:
		return errors.New("expected tensor: nothing to compare")
	}
	for _, p := range e.probes {
		if p.at < 0 || p.at >= whole.Len() {
			return fmt.Errorf("tensor %v: probe of element %d", f.Shape, p.at)
		}
	}
	return nil
}

// Element is a type of tensor elements that can be compared.
type Element interface{ layout.Float | int32 }

// Compare returns an error that names the first element of got that is not as expected. The sums are held to the
// tolerance of a single element: ATol + RTol·Σ|x|, and twice that relative part for the squares.
func Compare[T Element](name string, got []T, want *Expected, tol Tol) error {
	if n := (&Tensor{Shape: want.Shape}).Len(); len(got) != n {
		return fmt.Errorf("%s: got %d elements, want %d, shape %v", name, len(got), n, want.Shape)
	}
	for _, p := range want.probes {
		if got, want := float64(got[p.at]), float64(p.value); !tol.allows(got, want) {
			return fmt.Errorf("%s: element %d is %.9g, want %.9g within %.3g + %.3g·|want|",
				name, p.at, got, want, tol.ATol, tol.RTol)
		}
	}
	var sum, abs, sumSq float64
	nonzero := 0
	for _, v := range got {
		x := float64(v)
		sum += x
		abs += math.Abs(x)
		sumSq += x * x
		if x != 0 {
			nonzero++
		}
	}
	if want.nonzero != nil && nonzero != *want.nonzero {
		return fmt.Errorf("%s: %d elements are not zero, want %d", name, nonzero, *want.nonzero)
	}
	if want.sum != nil && !(math.Abs(sum-float64(*want.sum)) <= tol.ATol+tol.RTol*abs) {
		return fmt.Errorf("%s: the sum of all elements is %.9g, want %.9g", name, sum, float64(*want.sum))
	}
	if want.sumSq != nil && !(math.Abs(sumSq-float64(*want.sumSq)) <= tol.ATol+2*tol.RTol*sumSq) {
		return fmt.Errorf("%s: the sum of all squares is %.9g, want %.9g", name, sumSq, float64(*want.sumSq))
	}
	return nil
}
