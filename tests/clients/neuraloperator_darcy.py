"""neuraloperator: a Fourier neural operator, its loss and two steps."""

import torch
from neuralop.losses import H1Loss, LpLoss
from neuralop.models import FNO
from show import show

torch.manual_seed(0)
net = FNO(n_modes=(6, 6), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2)
x, y = torch.randn(2, 1, 16, 16), torch.randn(2, 1, 16, 16)
optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
losses = []
for _ in range(2):
    loss = LpLoss(d=2, p=2)(net(x), y)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
show(losses=losses, out=net(x)[0, 0, 0], smooth=H1Loss(d=2)(net(x), y))
