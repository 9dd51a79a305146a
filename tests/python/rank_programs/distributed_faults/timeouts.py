"""Timeouts."""

from process_group import dist, r, torch
from datetime import timedelta

store = dist.distributed_c10d._get_default_store()
if r == 0:
    work = dist.irecv(torch.zeros(1), 1)
    try:
        work.wait(timedelta(seconds=0.3))
    except RuntimeError as error:
        print(error)
    store.set("told", "")
    work.wait()
    try:
        dist.monitored_barrier(timeout=timedelta(seconds=0.5))
    except RuntimeError as error:
        print(error)
else:
    store.wait(["told"])
    dist.send(torch.ones(1), 0)
dist.barrier()
