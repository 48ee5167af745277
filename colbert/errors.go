package colbert

import "errors"

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
func Cause(err error) error {
	for e := err; e != nil; e = unwrap(e) {
		for _, s := range []error{ErrShape, ErrDtype, ErrValue, ErrInternal} {
			if errors.Is(e, s) {
				return e
			}
		}
	}
	return err
}

// unwrap takes one layer off: the standard way, the TapeMachine's (Err), or that of github.com/pkg/errors (Cause).
func unwrap(err error) error {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return e.Unwrap()
	case interface{ Err() error }:
		return e.Err()
	case interface{ Cause() error }:
		if c := e.Cause(); c != err {
			return c
		}
	}
	return nil
}
