// Package cudrv holds the few driver calls that gorgonia.org/cu lacks: a cuInit that does not end the process, pinned
// and registered host memory, launches whose parameter is a struct of any size and that may overlap, more shared memory, tensor maps, the
// JIT's log, the driver's own error texts.
//
// It exists with the build tag maxsim_cuda (cgo, Linux) only; without it the package is empty and nothing of CUDA is
// built. It takes cu's own handle types and links the same libcuda, so both may be mixed freely on one context.
//
// # What a build needs
//
// cuda.h and a libcuda to link (the toolkit's stub is enough; the driver's own library is used when the program
// runs). Both are found without any variable in /usr/local/cuda, in /opt/cuda and where Debian puts them. A toolkit
// elsewhere needs CGO_CFLAGS=-I<toolkit>/include and CGO_LDFLAGS=-L<toolkit>/lib64/stubs.
//
// CUDA 13 changed the signatures of five functions that gorgonia.org/cu v0.9.6 calls. As cgo takes the flags of a
// package from that package alone, no other module can correct this on its own, and one variable is needed:
//
//	CGO_CFLAGS=-I<this module>/internal/cudrv/cuda13
//
// go list -m -f '{{.Dir}}' github.com/flash-maxsim/gorgonia-maxsim prints the module's folder, and go env -w keeps the
// variable for good. The folder holds a cuda.h that includes the toolkit's and restores the five names; it changes
// nothing for CUDA 11 and 12. Go's build cache does not see that a header has changed: after a toolkit was replaced
// by another in the same place, run go clean -cache.
//
// # What a program needs
//
// libcuda.so.1, which comes with the NVIDIA driver. A program built with the tag does not start without it: the
// dynamic linker stops it. With the library but without a GPU it starts, and [InitError] says what is missing.
//
// # What it changes
//
// gorgonia.org/cu calls cuInit from its own package initialisation and exits when that fails. The linker flag
// --wrap=cuInit in this package replaces that call, for the whole program, by one that remembers the result.
package cudrv
