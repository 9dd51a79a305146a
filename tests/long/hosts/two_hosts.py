"""Four ranks on two hosts train as one does alone; then one of them stops."""

import os
import signal
import sys
import time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 512), torch.nn.Tanh(), torch.nn.Linear(512, 1)
)
alone = [p.detach().clone() for p in net.parameters()]
ddp = torch.nn.parallel.DistributedDataParallel(net)
optimizer, data, rank = torch.optim.SGD(net.parameters(), lr=0.1), torch.randn(8, 64), dist.get_rank()
started = time.monotonic()
for _ in range(3):
    optimizer.zero_grad()
    ddp(data[2 * rank : 2 * rank + 2]).square().mean().backward()
    optimizer.step()
print("seconds", time.monotonic() - started)
trained = [p.detach().clone() for p in net.parameters()]
with torch.no_grad():
    for p, before in zip(net.parameters(), alone):
        p.copy_(before)
for _ in range(3):  # the whole batch, by this rank alone
    net.zero_grad()
    net(data).square().mean().backward()
    optimizer.step()
assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(trained, net.parameters()))
print("trained", flush=True)
if rank == 3:
    os.kill(os.getpid(), signal.SIGSTOP)
dist.all_reduce(torch.ones(1))
