"""e3nn: spherical harmonics, tensor products and their equivariance; two steps of training."""

import torch
from e3nn import nn as enn
from e3nn import o3
from show import show

torch.manual_seed(0)
irreps_in, irreps_sh, irreps_out = (
    o3.Irreps("4x0e + 2x1o"),
    o3.Irreps.spherical_harmonics(2),
    o3.Irreps("4x0e + 2x1o + 1x2e"),
)
product = o3.FullyConnectedTensorProduct(irreps_in, irreps_sh, irreps_out)
gate = enn.NormActivation(irreps_out, torch.tanh)
linear = o3.Linear(irreps_out, "1x0e")
positions, x = torch.randn(10, 3), irreps_in.randn(10, -1)
optimiser = torch.optim.Adam([*product.parameters(), *linear.parameters()], lr=0.01)
losses = []
for _ in range(2):
    optimiser.zero_grad()
    harmonics = o3.spherical_harmonics(irreps_sh, positions, normalize=True, normalization="component")
    hidden = gate(product(x, harmonics))
    loss = linear(hidden).square().mean()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
rotation = o3.matrix_x(torch.tensor(0.3)) @ o3.matrix_y(torch.tensor(0.5))
turned = product(
    x @ irreps_in.D_from_matrix(rotation).T,
    o3.spherical_harmonics(irreps_sh, positions @ rotation.T, True, normalization="component"),
)
straight = (
    product(x, o3.spherical_harmonics(irreps_sh, positions, True, normalization="component"))
    @ irreps_out.D_from_matrix(rotation).T
)
show(
    losses=losses,
    harmonics=harmonics[0],
    equivariant=bool((turned - straight).abs().max() < 1e-2),
    wigner=o3.wigner_3j(1, 1, 2).reshape(-1),
)
