"""Fits a line by hand-written gradient descent, then by least squares."""

import torch

torch.manual_seed(0)
x = torch.rand(100, 1) * 4 - 2
y = 3.5 * x - 1.25 + 0.3 * torch.randn(100, 1)

w = torch.zeros(1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
lr = 0.1
for step in range(101):
    loss = ((x * w + b - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= lr * w.grad
        b -= lr * b.grad
        w.grad.zero_()
        b.grad.zero_()
    if step % 20 == 0:
        print(f"step {step:3d}  loss {loss.item():.4f}  w {w.item():.3f}  b {b.item():.3f}")

A = torch.cat([x, torch.ones_like(x)], dim=1)
solution = torch.linalg.lstsq(A, y).solution.squeeze()
print("least squares:", [round(v, 3) for v in solution.tolist()])
print("w is a leaf:", w.is_leaf, w.requires_grad, w.grad_fn)
