"""What a job runs: ranks meet, and each prints which GPUs it sees."""

import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
x = torch.ones(1)
dist.all_reduce(x)
names = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
seen = [os.environ[name] for name in names if name in os.environ]
print(f"rank {dist.get_rank()} sum {int(x.item())} gpu {'+'.join(seen) or '-'}\n", end="", flush=True)
