#!/bin/bash
# build.sh DIR: rebuilds the images and MANIFEST with the compilers that toolkit.sh put into DIR. The same sources give
# the same bytes on every machine. Fails if ptxas serializes wgmma (C7510 to C7519) or spills more registers than below.
set -euo pipefail
tools=$(realpath "$1")
cd "$(dirname "$0")"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

sound() { # what ptxas said about an image; bytes of stack a kernel of it may have
  local most
  most=$(grep -oE "[0-9]+ bytes stack frame" "$log" | sort -n | tail -1 | cut -d" " -f1)
  if grep -E "C75[0-9][0-9]" "$log" >&2 || [ "$most" -gt "$2" ]; then
    echo "$1: ptxas serializes wgmma, or needs $most bytes of stack where $2 are allowed" >&2
    exit 1
  fi
}

# The gradients keep on the stack what they need once a row; the forwards nothing.
for image in maxsim:64 forward_sm80:0; do
  most=${image#*:} image=${image%:*}
  "$tools/cuda11/nvcc" -std=c++17 -O3 -arch=compute_80 -ptx $image.cu -o $image.ptx
  "$tools/cuda11/usr/bin/ptxas" -arch=sm_80 -v $image.ptx -o /dev/null 2>"$log"
  sound $image.ptx $most
done
"$tools/cuda12/nvcc" -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a -Xptxas -v -cubin forward_sm90a.cu -o forward_sm90a.cubin 2>"$log"
sound forward_sm90a.cubin 0

LC_ALL=C sha256sum *.cu *.cuh *.ptx *.cubin >MANIFEST
