"""Minimises Rosenbrock's function with Newton's method: gradient and Hessian from autograd."""

import torch
from torch.autograd.functional import hessian, jacobian


def rosenbrock(p):
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


p = torch.tensor([-1.2, 1.0], dtype=torch.float64)
for i in range(10):
    g = jacobian(rosenbrock, p)
    h = hessian(rosenbrock, p)
    p = p - torch.linalg.solve(h, g)
    print(f"{i}: f = {rosenbrock(p).item():.6f}  |g| = {g.norm().item():.4f}  p = ({p[0]:.5f}, {p[1]:.5f})")
    if g.norm() < 1e-3:
        break
print(h)

q = p.clone().requires_grad_()
(first,) = torch.autograd.grad(rosenbrock(q), q, create_graph=True)
second = torch.stack([torch.autograd.grad(first[i], q, retain_graph=True)[0] for i in range(2)])
print("the same by double backward:", torch.allclose(second, hessian(rosenbrock, p)))
print("the gradient is zero:", bool((first.abs() < 1e-6).all()), first.grad_fn is not None)
