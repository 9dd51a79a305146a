"""Principal components with torch.linalg.svd: the picture of a stretched cloud."""

import torch

torch.manual_seed(42)
n = 200
latent = torch.randn(n, 2) * torch.tensor([3.0, 0.5])
angle = torch.tensor(0.6)
rotation = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
data = torch.hstack([latent @ rotation.T, 0.1 * torch.randn(n, 1)])

mean = data.mean(0, keepdim=True)
centered = data - mean
u, s, vh = torch.linalg.svd(centered, full_matrices=False)
variance = s**2 / (n - 1)
ratio = variance / variance.sum()
for i, r in enumerate(ratio):
    direction = vh[i] * torch.sign(vh[i][vh[i].abs().argmax()])
    print(f"component {i}: {100 * r:.2f}%  {direction.numpy().round(3).tolist()}")

projected = centered @ vh[:2].T
restored = projected @ vh[:2] + mean
print("error of two components: %.4f" % (restored - data).pow(2).mean().sqrt())
covariance = torch.cov(data.T)
print(torch.allclose(torch.linalg.eigvalsh(covariance).flip(0), variance, rtol=1e-4))
print(covariance)
