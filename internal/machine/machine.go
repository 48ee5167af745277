// Package machine is what ops need against Gorgonia's machines: errors found again below the machines' own words, and
// panics kept from ending the process.
package machine

import (
	"fmt"
	"strings"
)

// Cause returns the layer of err whose text starts with prefix, which is how the errors of a package of ops start. The
// machines put their own words in front, in types that errors.Is cannot always look through. If no layer starts so, it
// returns err.
func Cause(err error, prefix string) error {
	if found := find(err, prefix); found != nil {
		return found
	}
	return err
}

// find returns the outermost layer of err whose text starts with prefix, nil if there is none.
func find(err error, prefix string) error {
	if err == nil || strings.HasPrefix(err.Error(), prefix) {
		return err
	}
	for _, e := range unwrap(err) {
		if found := find(e, prefix); found != nil {
			return found
		}
	}
	return nil
}

// unwrap takes one layer off: one of the standard ways, the TapeMachine's (Err), or that of github.com/pkg/errors (Cause).
func unwrap(err error) []error {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	case interface{ Unwrap() error }:
		return []error{e.Unwrap()}
	case interface{ Err() error }:
		return []error{e.Err()}
	case interface{ Cause() error }:
		if c := e.Cause(); c != err { // the root of some is itself
			return []error{c}
		}
	}
	return nil
}

// Guard, deferred, turns a panic into an error that wraps sentinel: an op runs on a goroutine of the machine, where a
// panic would end the process.
func Guard(err *error, sentinel error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", sentinel, r)
	}
}
