"""The largest eigenvalue by repeated multiplication, beside torch.linalg."""

import torch

torch.set_printoptions(precision=4, sci_mode=False)
g = torch.Generator().manual_seed(3)
a = torch.randn(6, 6, generator=g, dtype=torch.float64)
a = a @ a.T + torch.eye(6, dtype=torch.float64)

v = torch.ones(6, dtype=torch.float64)
v /= v.norm()
for i in range(500):
    w = a @ v
    new = torch.dot(v, w)
    w = w / torch.linalg.norm(w)
    if torch.allclose(w, v, rtol=0, atol=1e-12):
        break
    v = w
values, vectors = torch.linalg.eigh(a)
print("iterations below 500:", i < 500)
print(f"largest: {new:.6f} {values[-1]:.6f}")
print("same direction:", bool(torch.abs(torch.dot(v, vectors[:, -1])) > 1 - 1e-9))
print(values)
print("residual small:", (a @ v - new * v).abs().max().item() < 1e-6)
print(torch.trace(a).item() - values.sum().item() < 1e-9, torch.linalg.matrix_rank(a).item(), a.shape, a.dtype)
