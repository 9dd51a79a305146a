"""Rank 1 comes when the waits of the others have timed out; the work goes on."""

from faults_begin import dist, r, torch
from datetime import timedelta

store = dist.distributed_c10d._get_default_store()
if r == 1:
    store.wait(["told 0", "told 2"])
work = dist.all_reduce(torch.ones(2), async_op=True)
if r != 1:
    try:
        work.wait(timedelta(seconds=2))
    except RuntimeError as error:
        print("told:", str(error).replace("\n", " "))
    store.set(f"told {r}", "")
work.wait()
dist.barrier()
