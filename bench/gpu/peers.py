#!/usr/bin/env python3
"""Times the operator in PyTorch and in the packages flash-maxsim (FM) and late-interaction-kernels (LIK) on one GPU.

    python3 bench/gpu/peers.py warm       compiles what the rows need, on all cores; nothing is measured
    python3 bench/gpu/peers.py 400        measures every family, in at most so many seconds; a package that is not installed
                                          is reported and left out
    python3 bench/gpu/peers.py naive      one family: ceiling, naive, flash_maxsim, late_interaction_kernels, compile

A case is F (forward) or T (forward and backward to both sides) of a shape of kernels/dev/bench; inputs are unit vectors on
the device. One line of Go benchmark text for a case, an implementation and a type:

    ns/op       median by CUDA events, a cold L2 cache (256 MiB are cleared before every call)
    forward-ns  the forward pass of a T case, the same way: it stores what the backward pass needs
    TFLOP/s     of the forward pass, 2 dim operations for a query token and a document token
    peak-MiB    peak of the memory beyond q and d, gradients included
    extra-MiB   peak of the memory beyond q, d and the gradients
    score-err, dq-err, dd-err   largest error of the measured run against float64 on the same stored inputs, over the
                largest magnitude; of 8 queries and 8 documents
    bit-equal   1 if two runs gave the same bits of scores and gradients

The packages tune their kernels at the first call of a kind, for keys that leave out how many sequences there are and, in
LIK, keep the outcome on disk. Here every row tunes for itself, on the idle GPU. Triton compiles many variants for that:
`warm` has filled Triton's cache, or the rows compile. Each family is measured in a process of its own, for a kernel that
breaks the context must not harm the next.
"""
import gc
import importlib
import importlib.metadata
import importlib.util
import math
import os
import statistics
import subprocess
import sys
import time

SHAPES = {  # kind, Nq, Lq, Nd, Ld, dim; own: every query has its own Nd documents; ragged: documents of 1 … 2 Ld tokens
    "1t": ("all", 128, 32, 128, 300, 128),
    "1v": ("all", 64, 1024, 64, 1024, 128),
    "1L": ("all", 512, 32, 512, 300, 128),
    "2": ("own", 64, 32, 16, 300, 128),
    "2a": ("one", 1, 32, 1000, 300, 128),
    "2b": ("one", 1, 32, 10000, 300, 128),
    "2c": ("one", 1, 128, 1000, 1024, 128),
    "2d": ("one", 1, 1024, 1000, 1024, 128),
    "R20": ("ragged", 200, 20, 200, 180, 128),
    **{f"D{dim}": ("all", 128, 32, 128, 300, dim) for dim in (64, 96, 256, 768, 1024)},
    **{f"V{dim}": ("all", 64, 1024, 64, 1024, dim) for dim in (64, 96, 256, 768)},
}
MAIN = "F1t F1v T1t T1v T1L T2 F2a F2b F2c F2d"
MORE = "FR20 TR20 FD64 TD64 FD96 TD96 FD256 TD256 FD768 TD768 FD1024 TD1024 FV64 FV96 FV256 FV768"
ROWS = {  # family: implementation, stored type, cases; what matters most comes first
    "naive": [("naive", "fp16", MAIN), ("naive-ieee", "fp32", MAIN), ("naive-tf32", "fp32", MAIN), ("naive", "fp16", MORE)],
    "flash_maxsim": [
        ("FM", "fp16", MAIN),
        ("FM-CSR", "fp16", "T1t T1L"),
        ("FM-chunk128", "fp16", "T1v"),
        ("FM-CSR-chunk128", "fp16", "T1v"),
        ("FM-sparse", "fp16", "T2"),
        ("FM-splitk", "fp16", "F2c F2d"),
        ("FM", "fp16", MORE),
        ("FM", "bf16", "F1t T1t"),
        ("FM", "fp32", "F1t T1t"),
    ],
    "late_interaction_kernels": [
        ("LIK", "fp16", MAIN),
        ("LIK-lowmem", "fp16", "T1t T1v"),
        ("LIK-unified", "fp16", "T1L T2"),
        ("LIK", "fp16", MORE),
        ("LIK-varlen", "fp16", "FR20 TR20"),
        ("LIK", "bf16", "F1t T1t"),
        ("LIK", "fp32", "F1t T1t"),
    ],
    "compile": [("compile", "fp16", "F1t T1t F1v T1v F2d"), ("compile-tf32", "fp32", "F1v T1v")],
}
WEIGHTS = {"ceiling": 1, "naive": 2, "flash_maxsim": 4, "late_interaction_kernels": 4, "compile": 2}  # of the time that is left
WARM_SECONDS = 240
PACKAGES = ("flash_maxsim", "late_interaction_kernels")


def say(text):
    print(text, flush=True)


class Inputs:
    """Token rows on the device. Ragged documents are padded with zeros, or packed one after the other."""

    def __init__(self, shape, dtype, train, packed):
        kind, nq, lq, nd, ld, dim = SHAPES[shape]
        self.kind, self.dim, self.train = kind, dim, train
        self.mask = self.lengths = self.cu = None
        self.query_tokens, self.pairs = nq * lq, nq * lq * nd * ld
        if kind == "ragged":
            self.lengths = lengths(nd, ld)
            self.longest = int(self.lengths.max())
            self.mask = torch.arange(self.longest, device="cuda") < self.lengths[:, None]
            self.pairs = nq * lq * int(self.lengths.sum())
            ld = self.longest
        q = self.unit(0, dtype, *([lq] if kind == "one" else [nq, lq]))
        d = self.unit(1, dtype, *([nq, nd, ld] if kind == "own" else [nd, ld]))
        if self.mask is not None:
            d = d * self.mask[..., None]
        if packed:
            d, q = d[self.mask], q.reshape(-1, dim)
            self.cu_q = torch.arange(0, nq * lq + 1, lq, device="cuda", dtype=torch.int32)
            self.cu_d = torch.nn.functional.pad(self.lengths.cumsum(0), (1, 0)).to(torch.int32)
        self.lq, self.packed = lq, packed
        self.q, self.d = (x.detach().requires_grad_(train) for x in (q, d))
        generator = torch.Generator("cuda").manual_seed(2)
        self.upstream = torch.randn((nd,) if kind == "one" else (nq, nd), generator=generator, device="cuda") / nd

    def unit(self, seed, dtype, *shape):
        x = torch.randn((*shape, self.dim), generator=torch.Generator("cuda").manual_seed(seed), device="cuda")
        return (x / x.norm(dim=-1, keepdim=True)).to(dtype)

    def dense(self, q, d):
        """Packed rows, or gradients of them, as padded ones."""
        if not self.packed:
            return q, d
        padded = torch.zeros(*self.mask.shape, self.dim, device="cuda", dtype=d.dtype)
        padded[self.mask] = d.detach()
        return q.detach().reshape(-1, self.lq, self.dim), padded


def lengths(nd, ld):
    """The lengths of ragged documents, those of kernels/dev/bench: std::mt19937 with seed 7."""
    import numpy

    drawn = numpy.random.RandomState(7).randint(0, 1 << 32, nd, dtype=numpy.uint32).astype(numpy.int64)
    return torch.tensor(1 + drawn % (2 * ld), device="cuda", dtype=torch.int32)


def naive(q, d, kind, mask=None):
    einsum = {"all": "ash,bth->abst", "ragged": "ash,bth->abst", "one": "sh,bth->bst", "own": "ash,abth->abst"}[kind]
    sims = torch.einsum(einsum, q, d)
    if mask is not None:
        sims = sims.masked_fill(~mask[:, None], -math.inf)
    return sims.max(dim=-1).values.sum(dim=-1)


def implementation(name, x):
    """Returns a function of q and d that gives the scores."""
    torch.set_float32_matmul_precision("high" if name.endswith("tf32") else "highest")
    kind = x.kind
    if name.startswith("naive"):
        return lambda q, d: naive(q, d, kind, x.mask)
    if name.startswith("compile"):
        importlib.import_module("torch._dynamo").reset()
        return torch.compile(lambda q, d: naive(q, d, kind), dynamic=False)
    if name.startswith("LIK"):
        import late_interaction_kernels as lik

        if name == "LIK-varlen":
            return lambda q, d: lik.maxsim_varlen(q, d, x.cu_q, x.cu_d, x.lq, x.longest)
        backward = name.partition("-")[2] or "auto"
        return lambda q, d: lik.maxsim(q, d, d_mask=x.mask, backward=backward)
    import flash_maxsim as fm

    os.environ["FLASH_BWD_PATH"] = "invgrid" if "CSR" in name else "sparse_dd" if "sparse" in name else "auto"
    if kind == "one":
        return lambda q, d: fm.flash_maxsim(q, d, splitk="splitk" in name)
    scores = fm.flash_maxsim_batched_train if x.train else fm.flash_maxsim_batched
    if "chunk" not in name:
        return lambda q, d: scores(q, d, shared_docs=kind != "own", doc_lengths=x.lengths)
    return lambda q, d: scores(q.reshape(-1, 128, x.dim), d, shared_docs=True).view(len(q), -1, len(d)).sum(dim=1)


def tuners(family):
    """The package's tuned kernels."""
    if family not in PACKAGES:
        return []
    from triton.runtime.autotuner import Autotuner

    importlib.import_module(family)
    values = [v for name, module in list(sys.modules.items()) if name.partition(".")[0] == family for v in vars(module).values()]
    return list({id(v): v for v in values if isinstance(v, Autotuner)}.values())


def prepare(kernel, warm):
    """Has the kernel tune anew for every row, among variants that are worth compiling: tiles of less than 32 rows are made for
    dim >= 512, and loops over long queries are unrolled, for minutes with small tiles."""
    original = kernel.early_config_prune

    def prune(configs, arguments, **more):
        configs = original(configs, arguments, **more) if original else list(configs)
        least_q = 128 if arguments.get("Lq", 32) >= 512 else 32 if arguments["d"] <= 256 else 0
        least_d = 32 if arguments["d"] <= 256 else 0
        kept = [c for c in configs if c.kwargs.get("BLOCK_Q", least_q) >= least_q and c.kwargs.get("BLOCK_D", least_d) >= least_d]
        return kept or configs

    kernel.early_config_prune = prune
    kernel.cache_results = False
    if warm:
        kernel._do_bench = lambda call, quantiles: call() or [0.0] * len(quantiles)


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


def errors(got, x):
    """The largest errors of scores, dq and dd against float64, of 8 queries and 8 documents."""

    def exact(q, d, upstream, mask=None):
        q, d = (v.detach().double().requires_grad_() for v in (q, d))
        with torch.enable_grad():
            scores = naive(q, d, x.kind, mask)
        scores.backward(upstream.double())
        return scores.detach(), q.grad, d.grad

    def error(a, b):
        return ((a.double() - b).abs().max() / b.abs().max()).item()

    q, d = x.dense(x.q, x.d)
    scores = got[0]
    if x.kind == "one":
        return [error(scores[:8], exact(q, d[:8], x.upstream[:8])[0])]
    dq, dd = x.dense(*got[1:]) if x.train else (None, None)
    if x.kind == "own":
        want = exact(q[:8], d[:8], x.upstream[:8])
        return [error(*pair) for pair in zip((scores[:8], dq[:8], dd[:8]), want)]
    want = exact(q[:8], d, x.upstream[:8], x.mask)
    found = [error(scores[:8], want[0])]
    if x.train:
        found.append(error(dq[:8], want[1]))
        want = exact(q, d[:8], x.upstream[:, :8], None if x.mask is None else x.mask[:8])
        found.append(error(dd[:8], want[2]))
    return found


def row(family, name, dtype, case, warm):
    """Runs a row of the table once, or measures it and prints its line."""
    stored = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
    x = Inputs(case[1:], stored, case[0] == "T", name == "LIK-varlen")
    for kernel in tuners(family):
        kernel.cache.clear()
    scores_of = implementation(name, x)

    def step():
        x.q.grad = x.d.grad = None
        scores = scores_of(x.q, x.d)
        if not x.train:
            return [scores]
        scores.backward(x.upstream.to(scores.dtype))
        return [scores.detach(), x.q.grad, x.d.grad]

    with torch.set_grad_enabled(x.train):
        first = step()
        if warm:
            torch.cuda.synchronize()
            return
        equal = all(torch.equal(a, b) for a, b in zip(first, step()))
        ns = cold_ns(step)
        forward = cold_ns(lambda: scores_of(x.q, x.d), 80) if x.train else ns
        found = errors(first, x)
        gradients = sum(g.numel() * g.element_size() for g in first[1:])
        x.q.grad = x.d.grad = first = None
        gc.collect()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        peak = torch.cuda.max_memory_allocated() - before
    flop = 2 * x.pairs * x.dim
    line = f"BenchmarkPeer/case={case}/impl={name}/dtype={dtype} 1 {ns:.0f} ns/op {flop / forward / 1e3:.1f} TFLOP/s {peak / 2**20:.1f} peak-MiB"
    line += f" {(peak - gradients) / 2**20:.1f} extra-MiB"
    if x.train:
        line += f" {forward:.0f} forward-ns"
    say(line + "".join(f" {e:.2e} {unit}" for e, unit in zip(found, ("score-err", "dq-err", "dd-err"))) + f" {equal:d} bit-equal")


def ceiling():
    """What cuBLAS and the memory reach: square products, the similarities of F1v written out, a copy."""
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for precision in ("highest", "high") if dtype == torch.float32 else ("highest",):
            torch.set_float32_matmul_precision(precision)
            name = "tf32" if precision == "high" else str(dtype).removeprefix("torch.")
            for m, k in (8192, 8192), (65536, 128):
                if k == 128 and dtype == torch.float32:
                    continue
                a, b = (torch.randn(m, k, device="cuda", dtype=dtype) for _ in "ab")
                ns = cold_ns(lambda: a @ b.T)
                say(f"BenchmarkCeiling/op=cublas/dtype={name}/mnk={m}x{m}x{k} 1 {ns:.0f} ns/op {2 * m * m * k / ns / 1e3:.1f} TFLOP/s")
    source = torch.empty(1 << 32, dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    ns = cold_ns(lambda: target.copy_(source))
    say(f"BenchmarkCeiling/op=copy 1 {ns:.0f} ns/op {2 * len(source) / ns * 1e3:.0f} MB/s")


def rows_of(family):
    return [(family, name, dtype, case) for name, dtype, cases in ROWS[family] for case in cases.split()]


def run(rows, warm=False):
    """Measures rows, or runs each of them once. Returns the number of those that failed."""
    failed, prepared = 0, set()
    for family, name, dtype, case in rows:
        try:
            for kernel in tuners(family) if family not in prepared else []:
                prepare(kernel, warm)
            prepared.add(family)
            row(family, name, dtype, case, warm)
        except Exception as error:  # of any kind: it is the package's
            failed += 1
            say(f"FAILED {case} {name} {dtype}: {' '.join(repr(error).split())[:300]}")
        gc.collect()
        torch.cuda.empty_cache()
    return failed


def child(*arguments):
    """Starts this script in a process of its own."""
    environment = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="1", LIK_SUPPRESS_NORM_WARN="1")
    return subprocess.Popen([sys.executable, "-u", __file__, *arguments], env=environment)


def ended_well(process, arguments, seconds):
    try:
        return process.wait(timeout=max(seconds, 0)) == 0
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        say(f"FAILED {' '.join(arguments)}: the time was not enough")
        return False


def compiled_rows():
    """The rows that compile, the longest to do first."""
    rows = [r for f in ("compile", *installed()) for r in rows_of(f)]
    return sorted(rows, key=lambda r: -SHAPES[r[3][1:]][2])


def warm():
    """Runs every row that compiles once, on all cores."""
    end, count = time.monotonic() + WARM_SECONDS, min(os.cpu_count(), 16)
    parts = [("warm", str(n), str(count)) for n in range(count)]
    processes = [child(*part) for part in parts]
    return all([ended_well(p, part, end - time.monotonic()) for p, part in zip(processes, parts)])


def everything(seconds):
    """Measures the families one after the other. What one leaves of its share of the time goes to those after it."""
    versions()
    end, good = time.monotonic() + seconds, True
    families = [f for f in WEIGHTS if f not in PACKAGES or f in installed()]
    for n, family in enumerate(families):
        share = WEIGHTS[family] / sum(WEIGHTS[f] for f in families[n:])
        good = ended_well(child(family), [family], share * (end - time.monotonic())) and good
    return good


def installed():
    return [family for family in PACKAGES if importlib.util.find_spec(family)]


def versions():
    for package in ("torch", "triton", *(family.replace("_", "-") for family in PACKAGES)):
        try:
            say(f"{package}: {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            say(f"{package}: not installed")


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].isdigit():
        sys.exit(not everything(int(sys.argv[1])))
    if sys.argv[1:] == ["warm"]:
        sys.exit(not warm())
    import torch

    if sys.argv[1] == "ceiling":
        sys.exit(ceiling())
    if sys.argv[1] == "warm":
        first, count = map(int, sys.argv[2:])
        sys.exit(min(run(compiled_rows()[first::count], warm=True), 1))
    sys.exit(min(run(rows_of(sys.argv[1])), 1))
