#!/bin/bash
# build.sh DIR: rebuilds the images and MANIFEST with the compilers that toolkit.sh put into DIR. The same sources give
# the same bytes on every machine. Fails if ptxas serializes wgmma (C7510 to C7519) or spills more registers than below,
# and if a kernel that may begin early touches memory before it waits.
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

ordered() { # no kernel of a cubin may touch global memory before it awaits earlier launches, but for loads of offsets
  "$tools/cuda12/usr/bin/nvdisasm" "$1" | awk -v image="$1" -v most="$2" '
    /^\.text\.maxsim_/ { kernel = $1; held = loads = 0 }
    / ACQBULK / { held = 1; if (loads > most) bad = kernel " loads before it waits" }
    / PREEXIT / { if (!held) bad = kernel " lets the next launch begin before it waits" }
    / EXIT / { if (!held) bad = kernel " ends before it waits" }
    / (LDG|LD|ST|STG|ATOM|ATOMG|RED|UTMALDG)[ .]/ && !held { loads++; if (!/LDG/) bad = kernel " does more than load before it waits" }
    END { if (bad) { print image ": " bad > "/dev/stderr"; exit 1 } }'
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
ordered forward_sm90a.cubin 2
"$tools/cuda12/nvcc" -std=c++17 -O3 -gencode=arch=compute_90,code=sm_90 -Xptxas -v -cubin maxsim.cu -o maxsim_sm90.cubin 2>"$log"
sound maxsim_sm90.cubin 64
ordered maxsim_sm90.cubin 0

LC_ALL=C sha256sum *.cu *.cuh *.ptx *.cubin >MANIFEST
