//go:build maxsim_cuda && cgo && linux

package cuda

import "github.com/flash-maxsim/gorgonia-maxsim/kernels"

// image is a file of compiled kernels.
type image struct{ name, code string }

// imagesFor returns the images that a GPU loads. The driver compiles PTX when it loads it, and keeps the result on disk.
func imagesFor(about Properties) []image {
	common := image{"maxsim.ptx", kernels.Common}
	if about.Major == 9 && about.Minor == 0 {
		return []image{common, {"forward_sm90a.cubin", kernels.ForwardSM90a}}
	}
	return []image{common, {"forward_sm80.ptx", kernels.ForwardSM80}}
}
