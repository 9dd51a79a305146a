"""Three bodies under gravity, by the leapfrog method; the force is minus the gradient of the potential."""

import torch

torch.set_default_dtype(torch.float64)
mass = torch.tensor([1.0, 0.5, 0.25])
position = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
velocity = torch.tensor([[0.0, -0.1], [0.0, 1.0], [-0.7, 0.0]])
velocity -= (mass[:, None] * velocity).sum(0) / mass.sum()
i, j = torch.triu_indices(3, 3, offset=1)


def potential(x):
    return -(mass[i] * mass[j] / (x[i] - x[j]).norm(dim=-1)).sum()


def acceleration(x):
    x = x.detach().requires_grad_(True)
    potential(x).backward()
    return -x.grad / mass.unsqueeze(-1)


def energy():
    return (0.5 * mass * velocity.square().sum(-1)).sum() + potential(position)


start, dt = energy(), 0.002
a = acceleration(position)
for step in range(1, 501):
    velocity = velocity + 0.5 * dt * a
    position = position + dt * velocity
    a = acceleration(position)
    velocity = velocity + 0.5 * dt * a
    if step % 100 == 0:
        print(f"t = {step * dt:.1f}  " + "  ".join("(%6.3f, %6.3f)" % tuple(p) for p in position.tolist()))
print("energy drift below 1e-5:", abs((energy() - start) / start).item() < 1e-5)
print("momentum:", (mass[:, None] * velocity).sum(dim=0).abs().max().item() < 1e-12)
print(torch.get_default_dtype(), position.dtype, position.numpy().dtype)
