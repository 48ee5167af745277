#!/usr/bin/env python3
"""Times the operator in PyTorch and in the packages flash-maxsim (FM) and late-interaction-kernels (LIK) on one GPU.

    python3 bench/gpu/peers.py            every family; a package that is not installed is reported and left out
    python3 bench/gpu/peers.py naive      one family: ceiling, naive, compile, flash_maxsim, late_interaction_kernels

Inputs are unit vectors on the device, dim 128. One line of Go benchmark text for a case, an implementation and a type:

    ns/op       F: forward, T: forward and backward to both sides; median by CUDA events, a cold L2 cache (256 MiB are
                cleared before every call)
    forward-ns  the forward pass of a T case, the same way
    TFLOP/s     of the forward pass, 2 Nq Lq Nd Ld dim operations
    peak-MiB    peak of the memory beyond q and d, gradients included
    score-err, dq-err, dd-err   largest error against float64 on the same stored inputs, over the largest magnitude; at
                most 8 queries and 8 documents of the same lengths
    bit-equal   1 if two runs gave the same bits of scores and gradients

Triton compiles many variants of the packages' kernels. Every row is therefore run once in a process of its own, as many
at a time as there are cores, to fill Triton's cache; then each family is measured, one after the other, in a process
of its own, for a kernel that breaks the context must not harm the next.
"""
import concurrent.futures
import gc
import importlib.metadata
import importlib.util
import os
import statistics
import subprocess
import sys
import time

DIM = 128
CASES = {  # kind, Nq, Lq, Nd, Ld; own: every query has its own Nd documents
    "F1t": ("all", 128, 32, 128, 300),
    "F1v": ("all", 64, 1024, 64, 1024),
    "F2a": ("one", 1, 32, 1000, 300),
    "F2b": ("one", 1, 32, 10000, 300),
    "F2c": ("one", 1, 128, 1000, 1024),
    "F2d": ("one", 1, 1024, 1000, 1024),
    "T1t": ("all", 128, 32, 128, 300),
    "T1v": ("all", 64, 1024, 64, 1024),
    "T1L": ("all", 512, 32, 512, 300),
    "T2": ("own", 64, 32, 16, 300),
}
ALL = " ".join(CASES)
ROWS = {  # family: implementation, stored type, cases
    "naive": [("naive", "fp16", ALL), ("naive-tf32", "fp32", ALL), ("naive-ieee", "fp32", ALL)],
    "compile": [("compile", "fp16", "F1t T1t F1v T1v F2d"), ("compile-tf32", "fp32", "F1v T1v")],
    "flash_maxsim": [
        ("FM", "fp16", ALL),
        ("FM-CSR", "fp16", "T1t T1v T1L"),
        ("FM-chunk128", "fp16", "T1v"),
        ("FM-CSR-chunk128", "fp16", "T1v"),
        ("FM-sparse", "fp16", "T2"),
        ("FM", "bf16", "F1t T1t"),
        ("FM", "fp32", "F1t T1t"),
    ],
    "late_interaction_kernels": [
        ("LIK", "fp16", ALL),
        ("LIK-lowmem", "fp16", "T1t T1v"),
        ("LIK-unified", "fp16", "T1v T1L T2"),
        ("LIK", "bf16", "F1t T1t"),
        ("LIK", "fp32", "F1t T1t"),
    ],
}
SECONDS = {"ceiling": 60, "naive": 120, "compile": 100, "flash_maxsim": 150, "late_interaction_kernels": 150}
WARM_SECONDS = 150


def say(text):
    print(text, flush=True)


def naive(q, d, kind):
    sims = {"all": "ash,bth->abst", "one": "sh,bth->bst", "own": "ash,abth->abst"}[kind]
    return torch.einsum(sims, q, d).max(dim=-1).values.sum(dim=-1)


def implementation(name, kind, train):
    """Returns a function of q and d that gives the scores."""
    torch.set_float32_matmul_precision("high" if name.endswith("tf32") else "highest")
    if name.startswith("naive"):
        return lambda q, d: naive(q, d, kind)
    if name.startswith("compile"):
        importlib.import_module("torch._dynamo").reset()
        return torch.compile(lambda q, d: naive(q, d, kind), dynamic=False)
    if name.startswith("LIK"):
        import late_interaction_kernels as lik

        backward = name.partition("-")[2] or "auto"
        return lambda q, d: lik.maxsim(q, d, backward=backward)
    import flash_maxsim as fm

    os.environ["FLASH_BWD_PATH"] = "invgrid" if "CSR" in name else "sparse_dd" if "sparse" in name else "auto"
    if kind == "one":
        return fm.flash_maxsim
    scores = fm.flash_maxsim_batched_train if train else fm.flash_maxsim_batched
    if "chunk" not in name:
        return lambda q, d: scores(q, d, shared_docs=kind == "all")
    return lambda q, d: scores(q.reshape(-1, 128, DIM), d, shared_docs=True).view(len(q), -1, len(d)).sum(dim=1)


def tuners(family):
    """The packages' autotuned kernels, each with the smallest document tile that is worth a try at dim 128."""
    if family == "flash_maxsim":
        return [(importlib.import_module("flash_maxsim.flash_maxsim")._maxsim_fwd_kernel, 64)]
    if family == "late_interaction_kernels":
        forward = importlib.import_module("late_interaction_kernels.forward")
        lowmem = importlib.import_module("late_interaction_kernels.backward.lowmem")
        unified = importlib.import_module("late_interaction_kernels.backward.unified")
        return [(forward._maxsim_fwd_kernel, 64), (unified._bwd_unified_kernel, 0), (lowmem._bwd_dQ_kernel, 0), (lowmem._bwd_dD_owned_kernel, 32)]
    return []


def fewer_variants(kernel, smallest):
    """Leaves out variants that are made for dim >= 512, and for long queries tiles of less than 64 rows, whose unrolled
    loops compile for minutes."""
    original = kernel.early_config_prune

    def prune(configs, arguments, **more):
        configs = original(configs, arguments, **more) if original else list(configs)
        long = arguments.get("Lq", 32) >= 512
        kept = [c for c in configs if c.kwargs.get("BLOCK_D", smallest) >= smallest and not (long and c.kwargs.get("BLOCK_Q", 64) < 64)]
        return kept or configs

    kernel.early_config_prune = prune


def inputs(kind, nq, lq, nd, ld, dtype, train):
    def unit(seed, *shape):
        x = torch.randn(shape, generator=torch.Generator("cuda").manual_seed(seed), device="cuda")
        return (x / x.norm(dim=-1, keepdim=True)).to(dtype).requires_grad_(train)

    q = unit(0, lq, DIM) if kind == "one" else unit(0, nq, lq, DIM)
    d = unit(1, nq, nd, ld, DIM) if kind == "own" else unit(1, nd, ld, DIM)
    upstream = torch.randn((nd,) if kind == "one" else (nq, nd), generator=torch.Generator("cuda").manual_seed(2), device="cuda") / nd
    return q, d, upstream


def cold_ns(call, budget_ms=220):
    """The median time of a call that finds nothing of its inputs in the L2 cache."""
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")

    def timed(n):
        events = [[torch.cuda.Event(enable_timing=True) for _ in "ab"] for _ in range(n)]
        for start, end in events:
            flush.zero_()
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return statistics.median(start.elapsed_time(end) for start, end in events)

    timed(2)
    return 1e6 * timed(int(max(5, min(60, budget_ms / timed(2)))))


def largest_error(got, want):
    return ((got.double() - want).abs().max() / want.abs().max()).item()


def row(family, name, dtype, case, warm):
    """Runs a row of the table once, or measures it and prints its line."""
    kind, nq, lq, nd, ld = CASES[case]
    train, stored = case[0] == "T", {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
    for kernel, _ in tuners(family):  # the packages' keys leave out how many sequences there are
        kernel.cache.clear()
    scores_of = implementation(name, kind, train)

    def step(q, d, upstream):
        q.grad = d.grad = None
        scores = scores_of(q, d)
        if not train:
            return [scores]
        scores.backward(upstream.to(scores.dtype))
        return [scores.detach(), q.grad, d.grad]

    q, d, upstream = inputs(kind, nq, lq, nd, ld, stored, train)
    with torch.set_grad_enabled(train):
        first = step(q, d, upstream)
        if warm:
            return
        equal = all(torch.equal(a, b) for a, b in zip(first, step(q, d, upstream)))
        ns = cold_ns(lambda: step(q, d, upstream))
        forward = cold_ns(lambda: scores_of(q, d), 80) if train else ns
        q.grad = d.grad = first = None
        gc.collect()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step(q, d, upstream)
        peak = torch.cuda.max_memory_allocated() - before

        q, d, upstream = inputs(kind, min(nq, 8), lq, min(nd, 8), ld, stored, train)
        got = step(q, d, upstream)
        q64, d64 = (x.detach().double().requires_grad_(train) for x in (q, d))
        want = naive(q64, d64, kind)
        if train:
            want.backward(upstream.double())
    errors = [largest_error(a, b) for a, b in zip(got, [want.detach(), q64.grad, d64.grad])]
    flop = 2 * nq * lq * nd * ld * DIM
    line = f"BenchmarkPeer/case={case}/impl={name}/dtype={dtype} 1 {ns:.0f} ns/op {flop / forward / 1e3:.1f} TFLOP/s {peak / 2**20:.1f} peak-MiB"
    if train:
        line += f" {forward:.0f} forward-ns"
    say(line + "".join(f" {e:.2e} {unit}" for e, unit in zip(errors, ("score-err", "dq-err", "dd-err"))) + f" {equal:d} bit-equal")


def ceiling():
    """What cuBLAS and the memory reach: square products, the similarities of F1v written out, a copy."""
    say(f"gpu: {torch.cuda.get_device_name()}")
    say(f"pytorch: {torch.__version__}")
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for precision in ("highest", "high") if dtype == torch.float32 else ("highest",):
            torch.set_float32_matmul_precision(precision)
            name = "tf32" if precision == "high" else str(dtype).removeprefix("torch.")
            for m, k in (8192, 8192), (65536, DIM):
                if k == DIM and dtype == torch.float32:
                    continue
                a, b = (torch.randn(m, k, device="cuda", dtype=dtype) for _ in "ab")
                ns = cold_ns(lambda: a @ b.T)
                say(f"BenchmarkCeiling/op=cublas/dtype={name}/mnk={m}x{m}x{k} 1 {ns:.0f} ns/op {2 * m * m * k / ns / 1e3:.1f} TFLOP/s")
    source = torch.empty(1 << 32, dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    ns = cold_ns(lambda: target.copy_(source))
    say(f"BenchmarkCeiling/op=copy 1 {ns:.0f} ns/op {2 * len(source) / ns * 1e3:.0f} MB/s")


def run(family, only=None):
    """Measures a family, or runs one of its rows once. Returns the number of rows that failed."""
    failed = 0
    for kernel, smallest in tuners(family):
        fewer_variants(kernel, smallest)
    for name, dtype, cases in ROWS[family]:
        for case in cases.split():
            if only not in (None, f"{name}/{dtype}/{case}"):
                continue
            try:
                row(family, name, dtype, case, warm=only is not None)
            except Exception as error:  # of any kind: it is the package's
                failed += 1
                say(f"FAILED {case} {name} {dtype}: {' '.join(repr(error).split())[:300]}")
            gc.collect()
            torch.cuda.empty_cache()
    return failed


def child(seconds, *arguments, quiet=False):
    """Runs this script in a process of its own; True if it ended well and in time."""
    output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} if quiet else {}
    try:
        return subprocess.run([sys.executable, "-u", __file__, *arguments], timeout=max(seconds, 0), **output).returncode == 0
    except subprocess.TimeoutExpired:
        if not quiet:
            say(f"FAILED {' '.join(arguments)}: {seconds} s were not enough")
        return False


def everything():
    present = ["ceiling", "naive", "compile"]
    for family in ("flash_maxsim", "late_interaction_kernels"):
        package = family.replace("_", "-")
        if importlib.util.find_spec(family):
            present.append(family)
            say(f"{package}: {version(package)}")
        else:
            say(f"{package}: not installed")
    rows = [(f, f"{name}/{dtype}/{case}") for f in present[2:] for name, dtype, cases in ROWS[f] for case in cases.split()]
    rows.sort(key=lambda r: -CASES[r[1].rpartition("/")[2]][2])  # long queries compile longest
    end = time.monotonic() + WARM_SECONDS
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda r: child(end - time.monotonic(), *r, quiet=True), rows))
    return all([child(SECONDS[family], family) for family in present])


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown version"


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(not everything())
    import torch

    sys.exit(ceiling() if sys.argv[1] == "ceiling" else min(run(*sys.argv[1:3]), 1))
