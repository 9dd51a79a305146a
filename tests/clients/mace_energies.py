"""mace-torch: a small model's energy, forces and stress, and two steps of training."""

import ase.build
import numpy as np
import torch
from e3nn import o3
from mace import data, modules, tools
from show import show

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
table = tools.AtomicNumberTable([1, 8])
model = modules.ScaleShiftMACE(
    r_max=4.0,
    num_bessel=4,
    num_polynomial_cutoff=5,
    max_ell=2,
    num_interactions=2,
    num_elements=2,
    hidden_irreps=o3.Irreps("8x0e + 8x1o"),
    MLP_irreps=o3.Irreps("4x0e"),
    atomic_energies=np.array([-1.0, -3.0]),
    avg_num_neighbors=3.0,
    atomic_numbers=table.zs,
    correlation=2,
    gate=torch.nn.functional.silu,
    atomic_inter_scale=1.0,
    atomic_inter_shift=0.0,
    interaction_cls=modules.interaction_classes["RealAgnosticResidualInteractionBlock"],
    interaction_cls_first=modules.interaction_classes["RealAgnosticResidualInteractionBlock"],
)
water = ase.build.molecule("H2O")
other = water.copy()
other.positions[1] += 0.1
keys = data.KeySpecification(info_keys={}, arrays_keys={})
atoms = [
    data.AtomicData.from_config(data.config_from_atoms(each, key_specification=keys), z_table=table, cutoff=4.0)
    for each in (water, other)
]
batch = next(iter(tools.torch_geometric.dataloader.DataLoader(atoms, batch_size=2, shuffle=False)))
optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
losses = []
for _ in range(3):
    optimiser.zero_grad()
    out = model(batch.to_dict(), training=True, compute_force=True)
    loss = (out["energy"] + 5).square().mean() + out["forces"].square().mean()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
out = model(batch.to_dict(), compute_force=True)
show(losses=losses, energy=out["energy"], forces=out["forces"], parameters=sum(p.numel() for p in model.parameters()))
