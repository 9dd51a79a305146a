"""Collectives with gradients, and wrappers."""

from ddp_begin import r
import copy
import torch
import torch.nn as nn

import torch.distributed.nn.functional as D
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    CheckpointWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)

x = torch.full((2,), float(r + 1), requires_grad=True)


def grad_of(y):
    x.grad = None
    y.sum().backward()
    return x.grad.tolist()


y = torch.stack(D.all_gather(x))
assert y.tolist() == [[1.0, 1.0], [2.0, 2.0]]
assert grad_of(y * (r + 1) * torch.tensor([[1.0], [10.0]])) == [3.0 if r == 0 else 30.0] * 2
assert D.all_reduce(x).tolist() == [3.0, 3.0]
assert grad_of(D.all_reduce(x) * (r + 1)) == [3.0, 3.0]
assert D.broadcast(x, 1).tolist() == [2.0, 2.0]
assert grad_of(D.broadcast(x, 1) * (r + 1)) == ([0.0, 0.0] if r == 0 else [3.0, 3.0])
assert grad_of(D.reduce(x, 0) * (r + 1)) == [1.0, 1.0]
y = torch.stack(D.gather(x, 0))
assert y.tolist() == ([[1.0, 1.0], [2.0, 2.0]] if r == 0 else [[0.0, 0.0]] * 2)
assert grad_of(y * torch.tensor([[1.0], [10.0]])) == [10.0**r] * 2
z = [torch.full((2,), 10.0 * r + i, requires_grad=True) for i in range(2)]
s = D.scatter(z, 1)
(s * (r + 1)).sum().backward()
assert s.tolist() == [10.0 + r] * 2
assert [v.grad.tolist() for v in z] == ([[0.0, 0.0]] * 2 if r == 0 else [[1.0, 1.0], [2.0, 2.0]])
assert D.reduce_scatter(torch.zeros(2), z).tolist() == [10.0 + 2 * r] * 2
assert D.all_to_all_single(torch.zeros(2), torch.arange(2.0) + 10 * r).tolist() == [r, 10.0 + r]

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
ref = copy.deepcopy(net)
apply_activation_checkpointing(net, check_fn=lambda module: isinstance(module, nn.Linear))
assert isinstance(net[0], CheckpointWrapper)
assert isinstance(net[1][0], CheckpointWrapper)
assert not isinstance(net[1], CheckpointWrapper)
i = torch.randn(4, 3)
net(i).sum().backward(), ref(i).sum().backward()
assert all(torch.equal(p.grad, q.grad) for p, q in zip(net.parameters(), ref.parameters()))
assert list(net.state_dict()) == list(ref.state_dict())
assert str(net.load_state_dict(ref.state_dict())) == "<All keys matched successfully>"

from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

net = nn.Linear(4, 4)
fully_shard(net)
opt, scaler = torch.optim.SGD(net.parameters(), lr=0.1), ShardedGradScaler(device="cpu", init_scale=4.0)
for overflow in (False, True):
    opt.zero_grad()
    scaler.scale(net(torch.ones(2, 4)).sum()).backward()
    if overflow and r == 0:
        net.weight.grad.to_local().fill_(float("inf"))
    before = net.weight.full_tensor().clone()
    scaler.step(opt)
    scaler.update()
    assert torch.equal(before, net.weight.full_tensor()) == overflow
    assert scaler.get_scale() == (2.0 if overflow else 4.0)
