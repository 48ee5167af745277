#!/bin/bash
# build.sh DIR: rebuilds the images and MANIFEST with the compilers that toolkit.sh put into DIR. The same sources give
# the same bytes on every machine. Fails if ptxas serializes wgmma (C7510 to C7519) or spills registers.
set -euo pipefail
tools=$(realpath "$1")
cd "$(dirname "$0")"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

sound() { # what ptxas said about an image
  if grep -E "C75[0-9][0-9]|[1-9][0-9]* bytes spill" "$log" >&2; then
    echo "$1: ptxas serializes wgmma or spills registers" >&2
    exit 1
  fi
}

for image in maxsim forward_sm80; do
  "$tools/cuda11/nvcc" -std=c++17 -O3 -arch=compute_80 -ptx $image.cu -o $image.ptx
  "$tools/cuda11/usr/bin/ptxas" -arch=sm_80 -v $image.ptx -o /dev/null 2>"$log"
  sound $image.ptx
done
"$tools/cuda12/nvcc" -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a -Xptxas -v -cubin forward_sm90a.cu -o forward_sm90a.cubin 2>"$log"
sound forward_sm90a.cubin

LC_ALL=C sha256sum *.cu *.cuh *.ptx *.cubin >MANIFEST
