"""A job that listens on this machine alone."""

from network_begin import listening
import os

import sys
import torch
import torch.distributed as dist

dist.init_process_group(
    "gloo",
    init_method=sys.argv[1] if len(sys.argv) > 1 else None,
    rank=int(os.environ["RANK"]),
    world_size=int(os.environ["WORLD_SIZE"]),
)
assert set(listening()) <= {"127.0.0.1", "::1"}, listening()
everybody = [None] * dist.get_world_size()
dist.all_gather_object(everybody, dist.get_rank())
assert everybody == list(range(dist.get_world_size()))
dist.barrier()
dist.destroy_process_group()
print("well")
