"""Trains compiled towers with a number of threads for steps side by side, and prints the bits."""

import sys
import torch
from torch import nn

torch.set_num_interop_threads(int(sys.argv[1]))
assert torch.get_num_interop_threads() == int(sys.argv[1])
try:
    torch.set_num_interop_threads(3)
except RuntimeError as e:
    assert (
        str(e)
        == "Error: cannot set number of interop threads after parallel work has started or set_num_interop_threads called"
    )
torch.manual_seed(0)
towers = nn.ModuleList(
    [
        nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 64), nn.BatchNorm1d(64))
        for _ in range(6)
    ]
)
f = torch.compile(lambda x: torch.stack([tower(x) for tower in towers]).sum(0))
optimiser = torch.optim.SGD(towers.parameters(), lr=0.1)
for i in range(30):
    optimiser.zero_grad()
    f(torch.randn(32, 64)).square().mean().backward()
    optimiser.step()
print([float(p.double().sum()).hex() for p in list(towers.parameters()) + list(towers.buffers())])
