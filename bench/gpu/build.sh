#!/usr/bin/env bash
# build.sh DIR: makes a folder with everything that run.sh needs on a machine with a GPU and without Go. Needs Go, g++, git
# and the headers and driver stub of CUDA 12 or later; no GPU. CUDA_TOOLKIT names a toolkit that is not in a usual place.
set -euo pipefail
dir=$(realpath -m "${1:?usage: build.sh DIR}")
cd "$(dirname "$0")/../.."

# toolkit prints the folder of a toolkit of CUDA 12 or later.
toolkit() {
	local cuda header
	for cuda in "${CUDA_TOOLKIT:-}" /usr/local/cuda /opt/cuda "${XDG_CACHE_HOME:-$HOME/.cache}/maxsim-cuda/cuda12" bin/cuda/cuda12; do
		for header in "$cuda/include/cuda.h" "$cuda/usr/include/cuda.h"; do
			if [ -n "$cuda" ] && grep -qsE '^#define CUDA_VERSION 1[2-9]' "$header"; then
				realpath "$cuda"
				return
			fi
		done
	done
	echo "build.sh: no toolkit of CUDA 12 or later: CUDA_TOOLKIT=FOLDER names one, kernels/toolkit.sh unpacks one" >&2
	return 1
}
cuda=$(toolkit)

if [ -e "$dir" ] && ! [[ -e $dir/commit && -e $dir/maxsim.test ]]; then
	echo "build.sh: $1 is there and was not made by this script" >&2
	exit 1
fi
rm -rf "$dir"
mkdir -p "$dir/bench/gpu" "$dir/kernels" "$dir/internal/cuda" "$dir/example"

# The tests look for these files where the repository has them.
cp -r testdata README.md example_test.go go.mod "$dir"
cp kernels/*.ptx kernels/*.cubin kernels/params.cuh "$dir/kernels"
cp bench/gpu/run.sh bench/gpu/peers.py "$dir/bench/gpu"

kernels/dev/build.sh "$cuda" "$dir/kernels/dev"

export CGO_CFLAGS="-O2 -I$PWD/internal/cudrv/cuda13 -I$cuda/include -I$cuda/usr/include"
export CGO_LDFLAGS="-L$cuda/lib64/stubs -L$cuda/usr/lib/x86_64-linux-gnu/stubs"
options=(-tags maxsim_cuda -trimpath -ldflags='-s -w')
go test -c "${options[@]}" -o "$dir/maxsim.test" .
go test -c "${options[@]}" -o "$dir/internal/cuda/cuda.test" ./internal/cuda
go build "${options[@]}" -o "$dir/example/colbert_train" ./examples/colbert_train
go run ./examples/colbert_train -export-data "$dir/example/data"

commit=$(git rev-parse HEAD)
[ -z "$(git status --porcelain --untracked-files=no)" ] || commit+=" with uncommitted changes"
echo "$commit" >"$dir/commit"
du -sh "$dir"
