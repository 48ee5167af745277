#!/bin/bash
# test.sh DIR: tests the kernels' own sources without a GPU, with the headers that ../toolkit.sh has put into DIR: every
# kernel against the double reference, the same with every memory access checked, then a part of the engine's suite.
set -euo pipefail
tools=$(realpath "$1")
cd "$(dirname "$0")/../.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export CGO_CFLAGS="-I$tools/cuda11/usr/include"
export CGO_LDFLAGS="-L$(dirname "$(find "$tools/cuda11" -name libcuda.so -print -quit)")"

library() { make -s -j2 -C internal/cudrv/standin library KERNELS=emulated BUILD="$out/$1" SANITIZE="$2" >/dev/null; }
library plain "" &
library checked address,undefined &
wait -n && wait -n
kernels/dev/build.sh "$tools/cuda12" "$out"

# A GPU of compute capability 9.0 takes the kernels of sm_80, too.
STANDIN_MAJOR=9 LD_LIBRARY_PATH=$out/checked LD_PRELOAD=$(g++ -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 \
  "$out/check" tiny seed=1 >"$out/log" 2>&1 &
# Five multiprocessors: in some kernels' rounds the last has no tile.
STANDIN_MAJOR=9 STANDIN_MULTIPROCESSORS=5 LD_LIBRARY_PATH=$out/plain "$out/check" tiny seed=2
# One multiprocessor: a CTA has many tiles, runs and turns of its ring.
STANDIN_MAJOR=9 STANDIN_MULTIPROCESSORS=1 LD_LIBRARY_PATH=$out/plain "$out/check" quick seed=3
engine() { # compute capability
  STANDIN_MAJOR=$1 LD_LIBRARY_PATH=$out/plain go test -count=1 -tags maxsim_cuda ./internal/cuda \
    -run 'TestConformance$/.*/(Cases|Exact|Special|Bound)' -skip "TestConformance/.*/.*/($large)"
}
large='many_documents|long_document|.*td=4500|.*70000'  # for plain loops, not for fibers
engine 9
engine 8
STANDIN_MAJOR=9 LD_LIBRARY_PATH=$out/plain MAXSIM_DEVICE=cuda go test -count=1 -tags maxsim_cuda . \
  -run 'TestCases|TestAPair|TestScaling|TestCopies|TestDocGradRows|TestInverseGrid|TestTraining|Example' -skip "TestCases/($large)"
wait -n || { cat "$out/log"; exit 1; }
cat "$out/log"
