"""torchsde: paths of a stochastic differential equation and their gradient."""

import torch
import torchsde
from show import show

torch.manual_seed(0)


class Process(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift, self.spread = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return 0.3 * self.spread(y).sigmoid()


process = Process()
times = torch.linspace(0, 1, 5)
motion = torchsde.BrownianInterval(t0=0.0, t1=1.0, size=(3, 2), entropy=7)
path = torchsde.sdeint(process, torch.ones(3, 2), times, bm=motion, method="euler", dt=0.1)
path[-1].sum().backward()
show(path=path[:, 0], gradient=process.drift.weight.grad, spread=process.spread.weight.grad)
