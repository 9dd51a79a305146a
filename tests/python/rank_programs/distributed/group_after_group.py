"""A process group after a process group."""

import time
import torch
import torch.distributed as dist

for _ in range(3):
    dist.init_process_group("gloo")
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [3, 3]
    if dist.get_rank() == 0:
        time.sleep(0.3)
    dist.destroy_process_group()
