#!/bin/bash
# build.sh CUDA OUT: builds check and bench into OUT with the headers and the driver stub of CUDA, a folder that
# ../toolkit.sh filled (cuda12). Run them from the repository's root: they read the images in kernels/.
set -euo pipefail
cuda=$(realpath "$1")
out=$(realpath -m "$2")
cd "$(dirname "$0")"
mkdir -p "$out"
for program in check bench; do
  g++ -std=c++17 -O3 -march=x86-64-v3 -I"$cuda/usr/include" -o "$out/$program" $program.cpp \
    -L"$cuda/usr/lib/x86_64-linux-gnu/stubs" -lcuda -lpthread -static-libstdc++ -static-libgcc
done
