//go:build maxsim_cuda && cgo && linux

package cuda

import "github.com/flash-maxsim/gorgonia-maxsim/kernels"

// image is a file of compiled kernels, all of those whose names end in suffix. The common ones have none.
type image struct{ name, code, suffix string }

// imagesFor returns the images that a GPU loads, the common one last. The driver compiles PTX when it loads it, and keeps
// the result on disk.
func imagesFor(about Properties) []image {
	common := image{"maxsim.ptx", kernels.Common, ""}
	if about.Major == 9 && about.Minor == 0 {
		return []image{{"forward_sm90a.cubin", kernels.ForwardSM90a, "_sm90a"}, common}
	}
	return []image{{"forward_sm80.ptx", kernels.ForwardSM80, "_sm80"}, common}
}
