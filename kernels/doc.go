// Package kernels holds the CUDA kernels of the MaxSim engine: sources, the images built from them, and MANIFEST, which
// proves that they belong together. README.md lists the kernels; params.cuh is their contract with the host.
//
// The images are embedded only with the build tag maxsim_cuda.
package kernels
