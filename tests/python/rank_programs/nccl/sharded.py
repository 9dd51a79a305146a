"""fully_shard and ZeroRedundancyOptimizer train as one process does."""

from process_group import dist, n, r, torch
from nccl_begin import by_nccl
import copy
import torch.nn as nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer

torch.manual_seed(1)
net = nn.Sequential(nn.Linear(6, 17), nn.Tanh(), nn.Linear(17, 3))
ref, zero = copy.deepcopy(net), copy.deepcopy(net)
X, Y = torch.randn(24, 6), torch.randint(0, 3, (24,))
fully_shard(net)
ddp = nn.parallel.DistributedDataParallel(zero)
trainings = [
    (net, torch.optim.Adam(net.parameters(), lr=0.01), True),
    (ref, torch.optim.Adam(ref.parameters(), lr=0.01), False),
    (ddp, ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.Adam, lr=0.01), True),
]
for step in range(5):
    for model, adam, part in trainings:
        adam.zero_grad()
        nn.functional.cross_entropy(model(X[r::n] if part else X), Y[r::n] if part else Y).backward()
        adam.step()
assert by_nccl() > 20, by_nccl()
for name, wanted in ref.state_dict().items():
    assert torch.allclose(net.state_dict()[name].full_tensor(), wanted, atol=1e-5), name
    assert torch.allclose(zero.state_dict()[name], wanted, atol=1e-5), name
