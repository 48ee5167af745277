package machine

import (
	"errors"
	"fmt"
	"testing"

	pkgerrors "github.com/pkg/errors"
)

// wrapper is a layer like the TapeMachine's, which errors.Is cannot look through.
type wrapper struct{ err error }

func (w wrapper) Error() string { return "PC 4: " + w.err.Error() }
func (w wrapper) Err() error    { return w.err }

func TestCauseLooksThroughEveryLayer(t *testing.T) {
	ours := fmt.Errorf("ops: bad value: %w", errors.New("7"))
	for _, err := range []error{
		ours, wrapper{ours}, pkgerrors.Wrap(ours, "failed"), fmt.Errorf("failed: %w", wrapper{pkgerrors.WithStack(ours)}),
		fmt.Errorf("failed: %w, then %w", errors.New("other"), wrapper{ours}),
	} {
		if got := Cause(err, "ops: "); !errors.Is(got, ours) || got.Error() != ours.Error() {
			t.Errorf("%v: got %v", err, got)
		}
	}
	for _, err := range []error{nil, errors.New("other"), wrapper{errors.New("other")}} {
		if got := Cause(err, "ops: "); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}

func TestGuardTurnsAPanicIntoAnError(t *testing.T) {
	sentinel := errors.New("internal")
	run := func() (err error) {
		defer Guard(&err, sentinel)
		var s []int
		_ = s[len(s)]
		return nil
	}
	if err := run(); !errors.Is(err, sentinel) {
		t.Errorf("got %v", err)
	}
}
