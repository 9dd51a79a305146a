"""A rank of a Slurm step: sums over all, and says what it is; with --die rank 2 is killed."""

import os
import signal
import sys
import taper
import torch
import torch.distributed as dist

dist.init_process_group(sys.argv[1] if sys.argv[1] != "none" else None)
x = torch.ones(1)
dist.all_reduce(x)
if "--die" in sys.argv and dist.get_rank() == 2:
    os.kill(os.getpid(), signal.SIGKILL)
dist.barrier()
print(
    f"rank {dist.get_rank()} sum {int(x)} local {dist.get_node_local_rank()} by {taper._C._dist_engine()} on {os.environ['SLURMD_NODENAME']}\n",
    end="",
    flush=True,
)
