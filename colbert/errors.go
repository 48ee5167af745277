package colbert

import "errors"

// Errors of this package wrap one of these. errors.Is finds them in what a constructor, an optimiser or a metric
// returns; a TapeMachine wraps the error of a run in a type of its own that keeps the message.
var (
	ErrShape = errors.New("colbert: shape")
	ErrDtype = errors.New("colbert: dtype")
	ErrValue = errors.New("colbert: value")
)
