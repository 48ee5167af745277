// Package enginetest is the conformance suite that every MaxSim engine must pass. An engine's tests call Run, and Fuzz
// from a native fuzz target:
//
//	func TestConformance(t *testing.T) { enginetest.Run(t, myEngine[float32]{}, enginetest.Options{}) }
//	func FuzzEngine(f *testing.F)      { enginetest.Fuzz(f, myEngine[float32]{}) }
//
// The suite holds an engine to package oracle and to the contract of layout.Engine: the case table of testdata/cases,
// small-integer inputs bit for bit, random inputs within a stated bound, the same bits in every batch, from run to run
// and for any number of threads. Its own tests run deliberately wrong engines and assert that each is caught.
package enginetest

import (
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Engine is what the suite tests: layout.Engine.
type Engine[T layout.Float] interface {
	Forward(b *layout.Batch, q, d, scores []T, record bool) (layout.Tape, error)
	Backward(b *layout.Batch, q, d []T, tape layout.Tape, ds, dq, dd []T) error
}

// Options are what an engine states about its arithmetic. The zero value is the arithmetic of T.
type Options struct {
	// Roundoff is the unit roundoff of the type to which both factors of every product are rounded: 2⁻¹¹ for TF32 and
	// float16, 2⁻⁸ for bfloat16. 0 is no rounding. Small integers stay exact in all of them.
	Roundoff float64
	// Largest is the greatest finite magnitude of that type where it is less than T's: 65504 for float16. Cases with a
	// valid token beyond it do not apply and pass. 0 is no such bound.
	Largest float64
}

// check is one property of an engine; it returns the first violation.
type check struct {
	name string
	run  func() error
}

// checks lists the suite.
func checks[T layout.Float](e Engine[T], o Options) []check {
	var all []check
	for _, group := range []struct {
		name   string
		checks []check
	}{
		{"Cases", caseChecks(e, o)},
		{"Exact", exactChecks(e)},
		{"Special", specialChecks(e)},
		{"Bound", boundChecks(e, o)},
		{"Invariance", invarianceChecks(e)},
		{"Repeat", repeatChecks(e)},
		{"Calls", callChecks(e)},
	} {
		for _, c := range group.checks {
			all = append(all, check{group.name + "/" + c.name, c.run})
		}
	}
	return all
}

// Run runs the whole suite, every check as a sub-test.
func Run[T layout.Float](t *testing.T, e Engine[T], o Options) {
	for _, c := range checks(e, o) {
		t.Run(c.name, func(t *testing.T) {
			if err := c.run(); err != nil {
				t.Error(err)
			}
		})
	}
}
