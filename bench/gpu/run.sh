#!/usr/bin/env bash
# run.sh DIR OUT STAGE…: measures and proves on the GPU of this machine what build.sh has put into DIR. Every stage writes
# OUT/STAGE-GPU.txt: raw output below its provenance. No settings of the card are touched.
#
#   check      every kernel against a double reference, on fresh random and adversarial inputs
#   sanitize   compute-sanitizer: synccheck, memcheck on every kernel and on the engine, initcheck on the engine, racecheck on
#              every kernel, precision by precision
#   tests      conformance, 250 runs, threads, memory (engine); cases, gradients, graphs (package maxsim)
#   kernels    times of the kernels, inputs on the device, a cold L2 cache: every shape and dim in bf16, the shapes of the
#              documentation's tables in every precision, some of them on the portable image
#   engine     times from host memory to host memory
#   warm       compiles the kernels of peers on all cores; may run beside check and sanitize, which measure nothing
#   peers      PyTorch and the peers that can be imported, on the same shapes, and cuBLAS's ceiling
#   example    the example on the GPU and on the CPU, the same seed, and MaxSim's share of a step
#   all        all of these
#
# A stage that fails or runs out of time does not stop the others; the exit status is 1 then. LIMIT=SECONDS replaces the
# time limits of the stages, EXAMPLE_FLAGS are further flags of the example, TEST_FLAGS of the tests and benchmarks.
set -euo pipefail

declare -A limit=([check]=150 [sanitize]=500 [tests]=120 [kernels]=300 [engine]=160 [warm]=260 [peers]=420 [example]=160)
order=(check sanitize tests kernels engine warm peers example)

usage() {
	echo "usage: run.sh DIR OUT STAGE…, stages: ${order[*]} all" >&2
	exit 2
}

# run COMMAND… runs a command of a stage in what is left of the stage's time, through $filter.
run() {
	local left=$((deadline - SECONDS)) status=0
	echo
	echo "\$ $*"
	if ((left > 0)); then
		timeout -k 10 "$left" "$@" 2>&1 | ${filter:-cat} || status=$?
	else
		status=124
	fi
	case $status in
	0) ;;
	124 | 137) echo "FAILED: the stage's time was used up" && failed=1 ;;
	*) echo "FAILED: exit status $status" && failed=1 ;;
	esac
}

# brief shortens what -test.v prints: tests, their sub-tests one level down, what failed or was skipped, and counts. Tests
# that are all skipped, for want of a GPU say, are a failure.
brief() {
	awk '/^=== / { next } /--- PASS/ { pass++ } /--- FAIL/ { fail++ } /--- SKIP/ { skip++ }
		!/^        +--- PASS/ { print }
		END { printf "%d passed, %d failed, %d skipped, sub-tests counted\n", pass, fail, skip; exit !pass }'
}

check() {
	run kernels/dev/check
	run env MAXSIM=kernels/maxsim.ptx kernels/dev/check tiny # where there is a cubin in its place
}

sanitize() {
	local tool precision
	for tool in synccheck memcheck; do
		run compute-sanitizer --tool $tool --error-exitcode 1 kernels/dev/check tiny seed=1
	done
	filter=brief run env -C internal/cuda compute-sanitizer --tool memcheck --error-exitcode 1 \
		./cuda.test -test.v -test.run 'Ways|Resid'
	# Memory that kernels/dev/check hands to a kernel is poisoned, and so written: what is read before anything was written
	# there shows in the engine. The case of 70,000 documents takes minutes under a sanitizer and shows nothing more.
	filter=brief run env -C internal/cuda compute-sanitizer --tool initcheck --error-exitcode 1 \
		./cuda.test -test.v -test.run 'TestConformance$/.*/(Cases|Special)' -test.skip '/./Cases/many_documents'
	# racecheck is a hundred times slower than the others. Each precision has kernels of its own, and a verdict of its own.
	for precision in split bf16 tf32 f64 f32 f16; do
		run compute-sanitizer --tool racecheck --error-exitcode 1 kernels/dev/check tiny seed=1 only=$precision
	done
}

tests() {
	# shellcheck disable=SC2086 # several flags
	filter=brief run env -C internal/cuda ./cuda.test -test.v $TEST_FLAGS
	# shellcheck disable=SC2086
	filter=brief run env MAXSIM_DEVICE=cuda ./maxsim.test -test.v $TEST_FLAGS
}

kernels() {
	run kernels/dev/bench bf16
	run kernels/dev/bench F1t F1v F2a F2b F2c F2d T1L T2 R20 f16 tf32 split
	run kernels/dev/bench F1t F1v T1L T2 bf16 f16 tf32 split sm80
}

engine() {
	# shellcheck disable=SC2086
	run env -C internal/cuda ./cuda.test -test.run '^$' -test.bench 'Forward|Full|Staging' -test.benchtime 0.2s $TEST_FLAGS
}

example() {
	local device
	for device in cuda cpu; do
		rm -rf "example/run-$device"
		# shellcheck disable=SC2086
		filter='tail -n 20' run example/colbert_train -data example/data -seed 1 -device $device -out example/run-$device $EXAMPLE_FLAGS
		run cat "example/run-$device/report.json"
		share "$device" || failed=1
	done
}

# share DEVICE prints MaxSim's part of a step, from the example's report.
share() {
	awk -v device="$1" -F '[:,]' '
		/"(encoder|maxsim_forward|maxsim_backward|optimiser)":/ { step += $2 }
		/"maxsim_/ { maxsim += $2 }
		END { if (!step) exit 1
			printf "\nMaxSim on %s: %.3f ms of %.3f ms a step, %.1f %%\n", device, 1e3*maxsim, 1e3*step, 100*maxsim/step }' \
		"example/run-$1/report.json"
}

warm() { run python3 -u bench/gpu/peers.py warm; }

peers() { run python3 -u bench/gpu/peers.py $((deadline - SECONDS - 10)); }

# provenance STAGE prints where and with what a stage was run.
provenance() {
	echo "command: bench/gpu/run.sh DIR OUT $1"
	echo "commit: $(<commit)"
	nvidia-smi --query-gpu=name,compute_cap,memory.total,driver_version --format=csv,noheader | head -n 1 |
		awk -F ', ' -v cores="$(nproc)" 'NF == 4 { printf "hardware: one %s (compute capability %s, %s), %d CPU cores\ndriver: %s\n", $1, $2, $3, cores, $4 }'
	echo "date: $(date -u +%F)"
}

(($# >= 3)) || usage
out=$(realpath -m "$2")
mkdir -p "$out"
cd "$1"
shift 2
[ "$*" != all ] || set -- "${order[@]}"
for stage; do
	[ -n "${limit[$stage]:-}" ] || usage
done
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 | sed 's/^NVIDIA //; s/ /-/g' | tr '[:upper:]' '[:lower:]') || true
EXAMPLE_FLAGS=${EXAMPLE_FLAGS:-} TEST_FLAGS=${TEST_FLAGS:-}
broken=()
for stage; do
	failed=0 deadline=$((SECONDS + ${LIMIT:-${limit[$stage]}}))
	{
		provenance "$stage" || true # of the stand-in libcuda, which has no nvidia-smi
		"$stage"
		exit $failed
	} 2>&1 | tee "$out/$stage-${gpu:-unknown}.txt" || broken+=("$stage")
done
if ((${#broken[@]})); then
	echo "failed: ${broken[*]}"
	exit 1
fi
echo "passed: $*"
