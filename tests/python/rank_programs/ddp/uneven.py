"""Uneven inputs."""

from ddp_begin import F, data, n, r, sgd
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
ddp = DDP(net)
X, Y = data()
opt = sgd(ddp)
steps = 0
with ddp.join():
    for i in range(2 + 3 * r):  # ranks have 2, 5, 8 batches
        opt.zero_grad()
        F.cross_entropy(ddp(X[i * 4 : i * 4 + 4]), Y[i * 4 : i * 4 + 4]).backward()
        opt.step()
        steps += 1
every = [None] * n
dist.all_gather_object(every, ([p.tolist() for p in net.state_dict().values()], steps))
assert all(one[0] == every[0][0] for one in every)
assert [one[1] for one in every] == [2 + 3 * i for i in range(n)]
try:
    with ddp.join(throw_on_early_termination=True):
        for i in range(1 + r):
            ddp(X)
    raise AssertionError("nobody said that inputs ran out")
except RuntimeError as error:
    assert "exhausted" in str(error)
