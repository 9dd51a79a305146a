"""A rank on a host of its own: joins, reduces and gathers; the first argument says what goes wrong after that."""

import os
import signal
import sys
import time
import torch
import torch.distributed as dist

if sys.argv[1] == "file":
    dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=int(os.environ["RANK"]), world_size=3)
else:
    dist.init_process_group("gloo")
t = torch.full((200000,), float(dist.get_rank()))
dist.all_reduce(t)
assert bool((t == 3).all())
everybody = [None] * 3
dist.all_gather_object(everybody, dist.get_rank())
assert everybody == [0, 1, 2]
if sys.argv[1] == "stranger":
    folder = os.path.dirname(sys.argv[2])
    open(f"{folder}/here{dist.get_rank()}", "w").close()
    while not os.path.exists(f"{folder}/go"):
        time.sleep(0.05)
if sys.argv[1] == "death" and dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.barrier()
print("well")
