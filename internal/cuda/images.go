//go:build maxsim_cuda && cgo && linux

package cuda

// image is a file of compiled kernels.
type image struct{ name, code string }

// imagesFor returns the images that a GPU loads.
func imagesFor(about Properties) []image {
	return []image{{"maxsim.ptx", ".version 7.8"}}
}
