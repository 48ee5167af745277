//go:build !amd64 || purego

package tile

import "github.com/flash-maxsim/gorgonia-maxsim/internal/layout"

// lacking says why kernels that exist are not available.
const lacking = "this build has no assembly: it is for another architecture or has the tag purego"

// assembly returns the names of the assembled kernels: none.
func assembly() []string { return nil }

// assembled is never called: no assembled kernels are available.
func assembled[T layout.Float](name string) *Kernels[T] {
	panic("tile: no assembled kernels " + name)
}
