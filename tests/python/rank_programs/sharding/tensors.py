"""Tensors in parts."""

from sharding_begin import n, r
import torch
import torch.nn as nn

from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh

mesh = init_device_mesh("cpu", (n,), mesh_dim_names=("x",))
assert mesh.size() == n
assert mesh.get_local_rank() == r
assert mesh["x"].get_group() is mesh.get_group("x")
assert mesh.get_coordinate() == (r,)
x = torch.randn(5, 3)
for placement in (Shard(0), Shard(1), Replicate()):
    d = distribute_tensor(x, mesh, [placement])
    assert d.shape == (5, 3)
    assert d.numel() == 15
    assert torch.equal(d.full_tensor(), x)
    assert d.placements == (placement,)
    assert torch.equal((d * 2 + 1).full_tensor(), x * 2 + 1)
    assert isinstance(d * 2, DTensor)
    y = d @ distribute_tensor(x.t(), mesh, [Replicate()])
    assert isinstance(y, DTensor)
    assert torch.allclose(y.full_tensor(), x @ x.t(), atol=1e-6)
    assert torch.allclose(d.sum().full_tensor(), x.sum())
    assert torch.equal(d.redistribute(placements=[Shard(1)]).full_tensor(), x)
d = distribute_tensor(x, mesh, [Shard(0)])
assert d.to_local().shape == ((3, 3) if r == 0 else (2, 3))
assert DTensor.from_local(torch.ones(2, 2), mesh, [Partial()]).full_tensor().tolist() == [[n] * 2] * 2
assert DTensor.from_local(torch.full((r + 1, 2), 1.0), mesh, [Shard(0)]).shape == (n * (n + 1) // 2, 2)
p = nn.Parameter(d)
assert isinstance(p, nn.Parameter)
assert isinstance(p, DTensor)
assert p.is_leaf
assert p.requires_grad
q = nn.Parameter(x.clone())
for one in (p, q):
    one.square().sum().backward()
assert isinstance(p.grad, DTensor)
assert torch.equal(p.grad.full_tensor(), q.grad)
a, b = (nn.utils.clip_grad_norm_([one], 0.5) for one in (p, q))
assert torch.allclose(a, b)
oa, ob = torch.optim.AdamW([p], lr=0.1), torch.optim.AdamW([q], lr=0.1)
oa.step(), ob.step()
assert torch.allclose(p.full_tensor(), q)
assert isinstance(oa.state_dict()["state"][0]["exp_avg"], DTensor)
oa.zero_grad()
assert p.grad is None
with torch.no_grad():
    p.copy_(x)
    assert torch.equal(p.full_tensor(), x)
    p.zero_()
    assert not p.full_tensor().any()
