"""schnetpack: SchNet and PaiNN as energy models with forces."""

import torch
import torch.utils.data.dataloader as dataloader
from ase.build import molecule
from show import show

dataloader.T_co = getattr(dataloader, "T_co", None)  # schnetpack 2.1.1 imports it; PyTorch 2.15 has it no more
import schnetpack as spk
import schnetpack.transform as trn
from schnetpack.interfaces import AtomsConverter


def model(representation):
    distances, energy, forces = (
        spk.atomistic.PairwiseDistances(),
        spk.atomistic.Atomwise(n_in=16, output_key="energy"),
        spk.atomistic.Forces(),
    )
    return spk.model.NeuralNetworkPotential(
        representation=representation,
        input_modules=[distances],
        output_modules=[energy, forces],
        postprocessors=[trn.CastTo64()],
    )


torch.manual_seed(0)
basis, cutoff = spk.nn.GaussianRBF(n_rbf=8, cutoff=5.0), spk.nn.CosineCutoff(5.0)
convert = AtomsConverter(neighbor_list=trn.ASENeighborList(cutoff=5.0), dtype=torch.float32, device="cpu")
numbers = {}
for name, kind in (("schnet", spk.representation.SchNet), ("painn", spk.representation.PaiNN)):
    net = model(kind(n_atom_basis=16, n_interactions=2, radial_basis=basis, cutoff_fn=cutoff))
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3)
    losses = []
    for _ in range(3):
        out = net(convert([molecule("H2O"), molecule("CH4")]))
        loss = (out["energy"] - 1).square().mean() + out["forces"].square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    numbers |= {f"{name}_losses": losses, f"{name}_energy": out["energy"], f"{name}_forces": out["forces"]}
show(**numbers)
