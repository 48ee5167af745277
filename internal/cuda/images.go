//go:build maxsim_cuda && cgo && linux

package cuda

import "github.com/flash-maxsim/gorgonia-maxsim/kernels"

// image is a file of compiled kernels, all of those whose names end in suffix. The common ones have none. Kernels that
// await their predecessors themselves may begin before those have ended.
type image struct {
	name, code, suffix string
	awaits             bool
}

// imagesFor returns the images that a GPU loads, the common one last. The driver compiles PTX when it loads it, and keeps
// the result on disk.
func imagesFor(about Properties) []image {
	if about.Major == 9 && about.Minor == 0 {
		return []image{{"forward_sm90a.cubin", kernels.ForwardSM90a, "_sm90a", true}, {"maxsim_sm90.cubin", kernels.CommonSM90, "", true}}
	}
	return []image{{"forward_sm80.ptx", kernels.ForwardSM80, "_sm80", false}, {"maxsim.ptx", kernels.Common, "", false}}
}
