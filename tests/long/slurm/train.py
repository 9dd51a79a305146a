"""Trains until it has made as many steps as asked, or until the scheduler says that time is short; says where it began
and ended."""

import os
import sys
import time
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import taper

dist.init_process_group("gloo")
torch.manual_seed(0)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
state = {"net": net.module.state_dict(), "step": 0}
if os.path.exists("last/.metadata"):
    dcp.load(state, checkpoint_id="last")
    net.module.load_state_dict(state["net"])
first = step = state["step"]
optimizer, stop = torch.optim.SGD(net.parameters(), lr=1e-3), torch.zeros(1)
taper.preempted()
print(f"rank {dist.get_rank()} of {dist.get_world_size()} begins at {first}", flush=True)
while step < int(sys.argv[1]) and not stop:
    optimizer.zero_grad()
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    step += 1
    stop.fill_(taper.preempted())
    dist.all_reduce(stop, op=dist.ReduceOp.MAX)  # who is told a moment later leaves with the others
    time.sleep(float(sys.argv[2]))
dcp.save({"net": net.module.state_dict(), "step": step}, checkpoint_id="last")
print(f"rank {dist.get_rank()} ends at {step}, {'preempted' if stop else 'done'}", flush=True)
