"""Ranks come to collectives that differ in what the argument names; each prints the error."""

from faults_begin import dist, n, r, torch
import sys

calls = {
    "size": lambda: dist.all_reduce(torch.ones(3 + (r == 1))),
    "dtype": lambda: dist.all_reduce(torch.ones(3, dtype=torch.float64 if r == 2 else torch.float32)),
    "operation": lambda: dist.all_reduce(torch.ones(3), op=dist.ReduceOp.MAX if r == 1 else dist.ReduceOp.SUM),
    "collective": lambda: dist.broadcast(torch.ones(3), 0) if r == 1 else dist.barrier(),
    "device": lambda: dist.all_reduce(torch.ones(3, device="cpu" if r else None)),
    "group": lambda: dist.new_group([0, 1] if r == 2 else [0, 2]),
    "group or barrier": lambda: dist.barrier() if r == 1 else dist.new_group([0, 2]),
    "parts scattered": lambda: dist.reduce_scatter(
        torch.zeros(r + 1), [torch.ones(i + 1 + (r == 1 and i == 0)) for i in range(n)]
    ),
    "parts gathered": lambda: dist.all_gather(
        [torch.ones(i + 1 + (r == 2 and i == 0)) for i in range(n)], torch.ones(r + 1)
    ),
    "root": lambda: dist.broadcast(torch.ones(3), r),
}
try:
    calls[sys.argv[1]]()
except RuntimeError as error:
    print(error)
    dist.destroy_process_group()
else:
    raise AssertionError("no rank was told")
