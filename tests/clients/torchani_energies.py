"""torchani: symmetry functions of a molecule, energies of a small network, forces."""

import torch
from show import show
from torchani.aev import AEVComputer

torch.manual_seed(0)
aev = AEVComputer.like_1x()
species = torch.tensor([[1, 0, 0, 0, 0]])
positions = torch.tensor(
    [[[0.03, 0.006, 0.01], [-0.83, 0.39, -0.26], [-0.66, -0.84, 0.21], [0.45, 0.15, 0.93], [0.66, -0.05, -0.91]]],
    requires_grad=True,
)
features = aev(species, positions)
net = torch.nn.Sequential(torch.nn.Linear(features.shape[-1], 32), torch.nn.CELU(0.1), torch.nn.Linear(32, 1))
energy = net(features).sum()
(forces,) = torch.autograd.grad(energy, positions)
show(energy=energy, forces=forces, features=features.sum(-1), length=features.shape[-1])
