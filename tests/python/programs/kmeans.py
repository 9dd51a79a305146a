"""Lloyd's algorithm with broadcasting, argmin and index_add_."""

import torch

torch.manual_seed(7)
centers = torch.tensor([[0.0, 0.0], [5.0, 5.0], [-4.0, 6.0]])
points = torch.cat([c + torch.randn(60, 2) for c in centers])
points = points[torch.randperm(points.size(0))]

k = 3
means = points[:k].clone()
for iteration in range(20):
    distance = (points[:, None, :] - means[None, :, :]).pow(2).sum(-1)
    label = distance.argmin(dim=1)
    sums = torch.zeros_like(means).index_add_(0, label, points)
    counts = torch.bincount(label, minlength=k).clamp(min=1).unsqueeze(1)
    new = sums / counts
    shift = (new - means).norm().item()
    means = new
    print(f"iteration {iteration}: inertia {distance.min(1).values.sum().item():.2f}, shift {shift:.4f}")
    if shift < 1e-4:
        break

order = means[:, 0].argsort()
print(means[order])
print("sizes:", torch.bincount(label, minlength=k)[order].tolist())
print(torch.cdist(means[order], centers[[2, 0, 1]]).diag())
