"""torchdiffeq: an ODE with a network inside, by two methods, with the adjoint's gradients."""

import torch
from show import show
from torchdiffeq import odeint, odeint_adjoint

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net

    def forward(self, t, y):
        return self.net(y) * torch.cos(t)


start, times = torch.tensor([[1.0, 0.5]]), torch.linspace(0, 1, 5)
path = odeint(Field(), start, times, method="dopri5")
adjoint = odeint_adjoint(Field(), start, times, method="rk4")
adjoint[-1].sum().backward()
show(path=path.reshape(-1), adjoint=adjoint.reshape(-1), gradient=net[0].weight.grad.reshape(-1))
