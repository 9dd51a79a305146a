"""What a collective costs: all_reduce and all_gather over sizes, as a latency and a rate. Started by any launcher, on
any backend:

    taper launch --nproc 4 bench/links.py                     # the library's own TCP engine
    mpirun -n 4 taper run bench/links.py mpi

A time is the best of many rounds, of the slowest rank in each. alpha is what a round of messages costs, from the
smallest size: ranks agree in ceil(log2 N) rounds and exchange in one. The rate, 1 / beta, is of the bytes that a rank
sends of the largest: 2 (N - 1) / N of its buffer in an all_reduce, N - 1 times its part in an all_gather.
docs/scaling.md uses them.
"""

import math
import sys
import time

import torch
import torch.distributed as dist

SIZES = [4, 4 << 10, 64 << 10, 1 << 20, 16 << 20]


def measure(work, bytes_):
    best, rounds = math.inf, 12 if bytes_ > 1 << 20 else 200 if bytes_ < 1 << 16 else 50
    took = torch.zeros(1, dtype=torch.float64)
    for _ in range(rounds):
        dist.barrier()
        start = time.perf_counter()
        work()
        took[0] = time.perf_counter() - start
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        best = min(best, took.item())
    return best


def main():
    dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "gloo")
    n = dist.get_world_size()
    lines = [
        "| collective | ranks | " + " | ".join(f"{size:,} bytes, us" for size in SIZES) + " | alpha | 1 / beta |",
        "|---" * (len(SIZES) + 4) + "|",
    ]
    for name, share in (("all_reduce", 2 * (n - 1) / n), ("all_gather", n - 1)):
        times = []
        for bytes_ in SIZES:
            x = torch.zeros(bytes_ // 4)
            out = torch.zeros(n * x.numel()) if name == "all_gather" else None
            times.append(
                measure(
                    (lambda: dist.all_gather_into_tensor(out, x)) if out is not None else (lambda: dist.all_reduce(x)),
                    bytes_,
                )
            )
        alpha, rate = times[0] / (math.ceil(math.log2(n)) + 1), SIZES[-1] * share / (times[-1] - times[0])
        lines.append(
            f"| {name} | {n} | "
            + " | ".join(f"{t * 1e6:,.0f}" for t in times)
            + f" | {alpha * 1e6:.0f} us | {rate / 1e9:.2f} GB/s |"
        )
    if dist.get_rank() == 0:
        print("\n".join(lines), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
