//go:build !(maxsim_cuda && cgo && linux)

// Package toolkit finds cuda.h where the build tag maxsim_cuda asks for it, and is empty otherwise.
package toolkit
