"""Peak device memory of the naive PyTorch step, beyond q and d: the whole similarity tensor, max, sum, backward.

    python3 bench/naive_step.py        needs PyTorch and a GPU with room for it
"""
import torch

SHAPES = {"T1v": (64, 1024, 64, 1024), "T1L": (512, 32, 512, 300)}

for name, (bq, tq, bd, td) in SHAPES.items():
    for dtype in (torch.float16, torch.float32):
        torch.cuda.empty_cache()
        q = torch.randn(bq, tq, 128, device="cuda", dtype=dtype, requires_grad=True)
        d = torch.randn(bd, td, 128, device="cuda", dtype=dtype, requires_grad=True)
        inputs = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        scores = torch.einsum("itk,juk->ijtu", q, d).max(-1).values.sum(-1)
        scores.sum().backward()
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated()
        print(f"naive PyTorch {torch.__version__} {name} {dtype}: inputs {inputs >> 20} MiB, "
              f"peak beyond them {(peak - inputs) >> 20} MiB", flush=True)
        del q, d, scores
