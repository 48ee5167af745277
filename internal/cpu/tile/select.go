package tile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// The instruction sets that have kernels.
const (
	AVX512  = "avx512" // amd64 with AVX-512 F, BW, DQ and VL
	AVX2    = "avx2"   // amd64 with AVX2 and FMA
	Generic = "generic"
)

// Available returns the names of the kernels that this machine and build can run, fastest first. The last is Generic.
func Available() []string { return append(assembly(), Generic) }

// Select returns the kernels of the given name, or the fastest available ones if name is empty. A name that is unknown
// or not available is an error: nothing falls back silently.
func Select[T layout.Float](name string) (*Kernels[T], error) {
	available := Available()
	if name == "" {
		name = available[0]
	}
	switch {
	case !slices.Contains([]string{AVX512, AVX2, Generic}, name):
		return nil, fmt.Errorf("unknown CPU kernels %q, expected %s, %s or %s", name, AVX512, AVX2, Generic)
	case !slices.Contains(available, name):
		return nil, fmt.Errorf("CPU kernels %q cannot run here (%s), expected one of %s", name, lacking, strings.Join(available, ", "))
	case name == Generic:
		return &Kernels[T]{Name: Generic, Widths: []int{genericLanes},
			Max: genericMax[T], Gather: genericGather[T], Pack: genericPack[T]}, nil
	}
	return assembled[T](name), nil
}
