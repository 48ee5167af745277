package colbert

import (
	"errors"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/machine"
)

// Every error of this package wraps one of these and says what was given and what was expected. While a graph is built,
// and from Adam and the metrics, errors.Is finds them directly; an error that comes out of a VM has to go through
// [Cause].
var (
	// ErrShape: ranks, sizes or counts that do not fit together.
	ErrShape = errors.New("colbert: shape mismatch")
	// ErrDtype: an element type that an input cannot have.
	ErrDtype = errors.New("colbert: unsupported dtype")
	// ErrValue: an id, label, weight, score, gradient or setting out of range, or a value that is missing.
	ErrValue = errors.New("colbert: bad value")
	// ErrInternal: a broken invariant inside the package, reported instead of a panic. Please file an issue.
	ErrInternal = errors.New("colbert: internal error")
)

// Cause returns the error of this package that an error of a Gorgonia machine carries, for use with errors.Is. An error
// that carries none comes back unchanged.
func Cause(err error) error { return machine.Cause(err, "colbert: ") }
