"""A compiled step of training, and a compiled chain of maps, six times each."""

import torch

net = torch.nn.Linear(32, 16)
opt = torch.optim.SGD(net.parameters(), 0.1)


@torch.compile
def step(x):
    opt.zero_grad()
    loss = ((net(x) * 2 + 1).tanh() * 3).sum()
    loss.backward()
    opt.step()
    return loss


for _ in range(6):
    step(torch.ones(8, 32))
pair = torch.compile(lambda a: (a * 2).add_(1).sigmoid())
for _ in range(6):
    pair(torch.ones(300))
