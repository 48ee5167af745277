#!/bin/bash
# build.sh CUDA OUT: builds check and bench into OUT with the headers and the driver stub of CUDA 12 or later: a folder
# that ../toolkit.sh filled (cuda12), or an installed toolkit (/usr/local/cuda). Run them from the repository's root: they
# read the images in kernels/.
set -euo pipefail
cuda=$(realpath "$1")
out=$(realpath -m "$2")
cd "$(dirname "$0")"
mkdir -p "$out"
for program in check bench; do
  g++ -std=c++17 -O3 -march=x86-64-v3 -I"$cuda/usr/include" -I"$cuda/include" -o "$out/$program" $program.cpp \
    -L"$cuda/usr/lib/x86_64-linux-gnu/stubs" -L"$cuda/lib64/stubs" -lcuda -lpthread -static-libstdc++ -static-libgcc
done
