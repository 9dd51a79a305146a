"""Calls beside a process group, begun in either order."""

from rpc_begin import rank, world
import sys
import torch
import torch.distributed.rpc as rpc
from torch.distributed.rpc import rpc_sync

import torch.distributed as dist


def add_ranks():
    total = torch.tensor(rank + 1)
    dist.all_reduce(total)
    assert total.item() == world * (world + 1) // 2


def call():
    assert rpc_sync(f"w{(rank + 1) % world}", max, args=(1, 2)) == 2


def begin(kind):
    dist.init_process_group("gloo") if kind == "group" else rpc.init_rpc(f"w{rank}", rank=rank, world_size=world)


def end(kind):
    dist.destroy_process_group() if kind == "group" else rpc.shutdown()


orders = [("group", "rpc"), ("rpc", "group"), ("group", "rpc")]
for first, second in orders if sys.argv[1] == "group" else orders[1:]:
    for last in first, second:
        begin(first)
        begin(second)
        add_ranks()
        call()
        end(first if last == second else second)
        end(last)
print("done")
