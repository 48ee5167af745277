# Generated files are committed; these targets delete and rebuild them.

.PHONY: asm

asm:
	rm -f internal/cpu/tile/kernels_amd64.* internal/cpu/peak/fma_amd64.*
	cd internal/cpu/tile/_asm && go generate ./...
	rm -f colbert/internal/*/kernels_amd64.*
	cd colbert/internal/_asm && go generate ./...

.PHONY: kernels

# CUDA_TOOLS is a folder that kernels/toolkit.sh has filled: kernels/toolkit.sh $(CUDA_TOOLS)
CUDA_TOOLS ?= bin/cuda

kernels:
	rm -f kernels/*.ptx kernels/*.cubin kernels/MANIFEST
	kernels/build.sh $(CUDA_TOOLS)

.PHONY: emulated

# The kernels' own sources, on this machine's CPU.
emulated:
	kernels/emulate/test.sh $(CUDA_TOOLS)
