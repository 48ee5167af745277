#!/usr/bin/env bash
# Runs the CPU benchmarks and writes raw results with their provenance: bench/run.sh NAME writes into bench/results
# cpu-NAME.txt (one core), threads-NAME.txt (all cores) and, where OpenBLAS is installed, openblas-NAME.txt (one core).
set -euo pipefail
cd "$(dirname "$0")"
name=${1:?usage: run.sh NAME}
core=${CORE:-1}
mkdir -p results

# record FILE DIRECTORY COMMAND… runs a command there and writes what it prints below its provenance.
record() {
	local file=$1 dir=$2
	shift 2
	{
		echo "command: $*"
		echo "commit: $(git rev-parse HEAD)"
		echo "date: $(date -u +%F)"
		echo "go: $(go version | cut -d' ' -f3)"
		echo "processor: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2- | xargs), family $(grep -m1 'cpu family' /proc/cpuinfo | cut -d: -f2 | xargs) model $(grep -m1 '^model\s*:' /proc/cpuinfo | cut -d: -f2 | xargs), $(nproc) cores"
		(cd "$dir" && "$@")
	} 2>&1 | tee "results/$file"
}

record "cpu-$name.txt" .. taskset -c "$core" go test -run '^$' -cpu 1 -count 3 -benchtime 0.3s -timeout 1h \
	-bench '(Forward|Backward|Full|Float64)$' .
record "threads-$name.txt" .. go test -run '^$' -benchtime 300x -bench 'Threads$' .
if echo '#include <cblas.h>' | cc -E - >/dev/null 2>&1; then
	record "openblas-$name.txt" . env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE \
		taskset -c "$core" go test -run '^$' -cpu 1 -benchtime 7x -timeout 1h -bench . .
fi
