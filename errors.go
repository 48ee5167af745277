package maxsim

import (
	"errors"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/machine"
)

// Sentinel errors. Every error of this package wraps one of them and says what was given and what was expected.
// While a graph is built errors.Is finds them directly; an error that comes out of a VM has to go through [Cause].
var (
	// ErrShape: ranks, sizes or counts that do not fit together.
	ErrShape = errors.New("maxsim: shape mismatch")
	// ErrDtype: an element type that the input cannot have, or a value that is not a plain dense tensor.
	ErrDtype = errors.New("maxsim: unsupported value")
	// ErrMask: a mask value that is neither 0 nor 1.
	ErrMask = errors.New("maxsim: bad mask")
	// ErrOffsets: cu_seqlens that do not start at 0, decrease, or end beyond the rows.
	ErrOffsets = errors.New("maxsim: malformed cu_seqlens")
	// ErrConfig: a Config whose fields contradict each other or the device.
	ErrConfig = errors.New("maxsim: bad config")
	// ErrNode: a node that is missing, of another graph, or not of the kind that the call is for.
	ErrNode = errors.New("maxsim: bad node")
	// ErrDevice: the device is not there, was closed, ran out of memory or failed.
	ErrDevice = errors.New("maxsim: device error")
	// ErrInternal: a broken invariant inside the package, reported instead of a panic. Please file an issue.
	ErrInternal = errors.New("maxsim: internal error")
)

// Cause returns the error of this package that an error of a Gorgonia machine carries, for use with errors.Is:
//
//	if err := vm.RunAll(); errors.Is(maxsim.Cause(err), maxsim.ErrOffsets) { … }
//
// Gorgonia's machines wrap what an op returns in types that errors.Is cannot always look through; its Grad keeps nothing
// but the text. An error that carries none of this package's sentinels comes back unchanged. Test the result with errors.Is,
// not with ==: some of Gorgonia's errors cannot be compared, and == panics.
func Cause(err error) error { return machine.Cause(err, "maxsim: ") }
