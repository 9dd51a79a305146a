"""Batch norm over all ranks."""

from ddp_begin import F, apart, n, r, sgd
import copy
import torch
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
plain = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 9, 3))
net = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain))
assert type(net[1]) is nn.SyncBatchNorm
ddp = DDP(net)
X, Y = torch.randn(12, 2, 5, 5), torch.randint(0, 3, (12,))
cut = [0, 3, 12] if n == 2 else [0, 12]  # different batches
x, y = X[cut[r] : cut[r + 1]].requires_grad_(), Y[cut[r] : cut[r + 1]]
o, p = sgd(ddp), sgd(plain)
for step in range(5):
    o.zero_grad(), p.zero_grad()
    (F.cross_entropy(ddp(x), y, reduction="sum") * n / 12).backward()
    F.cross_entropy(plain(X), Y).backward()
    o.step(), p.step()
assert apart(net, plain) < 1e-5, apart(net, plain)
for name in ("running_mean", "running_var", "num_batches_tracked"):
    assert torch.allclose(getattr(net[1], name), getattr(plain[1], name), atol=1e-6), name
Z = X.clone().requires_grad_()
gz = torch.autograd.grad(F.cross_entropy(plain(Z), Y), Z)[0]
gx = torch.autograd.grad(F.cross_entropy(net(x), y, reduction="sum") / 12, x)[0]
assert torch.allclose(gx, gz[cut[r] : cut[r + 1]], atol=1e-6)
net.eval(), plain.eval()
assert torch.allclose(net(X), plain(X), atol=1e-5)
