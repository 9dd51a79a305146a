"""einops: rearrangements as layers of a network, two steps of training."""

import torch
from einops import einsum, rearrange, reduce, repeat
from einops.layers.torch import Rearrange, Reduce
from show import show
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1),
    nn.ReLU(),
    Reduce("b c (h 2) (w 2) -> b c h w", "max"),
    Rearrange("b c h w -> b (h w) c"),
    nn.Linear(8, 4),
    Reduce("b n c -> b c", "mean"),
)
optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 2, 3])
losses = []
for _ in range(2):
    optimiser.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
show(
    losses=losses,
    einsum=einsum(x, x, "b c h w, b c h v -> b w v").sum((1, 2)),
    mean=reduce(x, "b c h w -> c", "mean"),
    tiles=repeat(rearrange(x, "b c h w -> b (c h w)")[:, :2], "b n -> b (n k)", k=2),
)
