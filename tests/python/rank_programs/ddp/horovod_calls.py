"""Horovod's calls."""

import copy
import torch
import torch.nn as nn
import horovod.torch as hvd

F = nn.functional
hvd.init()
r, n = hvd.rank(), hvd.size()
assert (hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size(), hvd.is_initialized()) == (
    r,
    n,
    0,
    1,
    True,
)
torch.manual_seed(r)
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=0.01 * (r + 1))
hvd.broadcast_parameters(net.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(opt, root_rank=0)
assert opt.param_groups[0]["lr"] == 0.01
torch.manual_seed(7)
X, Y = torch.randn(48, 6), torch.randint(0, 3, (48,))


def compare(limit, passes=1, **options):
    net2, ref = copy.deepcopy(net), copy.deepcopy(net)
    o = hvd.DistributedOptimizer(
        torch.optim.SGD(net2.parameters(), lr=0.1, momentum=0.9),
        named_parameters=net2.named_parameters(),
        backward_passes_per_step=passes,
        **options,
    )
    q = torch.optim.SGD(ref.parameters(), lr=0.1, momentum=0.9)
    assert isinstance(o, torch.optim.SGD)
    for step in range(10):
        o.zero_grad()
        for k in range(passes):
            x, y = X[r * passes + k :: n * passes], Y[r * passes + k :: n * passes]
            (F.cross_entropy(net2(x), y) / passes).backward()  # passes add up
        o.step()
        q.zero_grad()
        F.cross_entropy(ref(X), Y).backward()
        q.step()
    off = max((a - b).abs().max().item() for a, b in zip(net2.parameters(), ref.parameters()))
    assert off < limit, (options, off)


compare(1e-6)
compare(1e-6, passes=2)
compare(2e-2, compression=hvd.Compression.fp16)
compare(1e-6, gradient_predivide_factor=2.0)
o = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1), named_parameters=net.named_parameters())
F.cross_entropy(net(X[r::n]), Y[r::n]).backward()
try:
    o.zero_grad()
    raise AssertionError
except AssertionError as error:
    assert "race condition" in str(error)
o.synchronize()
torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
with o.skip_synchronize():
    o.step()

total = n * (n - 1) / 2
assert hvd.allreduce(torch.full((3,), float(r))).tolist() == [total / n] * 3
assert hvd.allreduce(torch.full((3,), float(r)), op=hvd.Sum).tolist() == [total] * 3
assert hvd.allreduce(torch.tensor([r]), op=hvd.Max).item() == n - 1
x = torch.full((2,), float(r), requires_grad=True)
hvd.allreduce(x * x, op=hvd.Sum).sum().backward()
assert x.grad.tolist() == [2.0 * r * n] * 2
t = torch.ones(2)
h = hvd.allreduce_async_(t, op=hvd.Sum)
assert hvd.synchronize(h) is t
assert t.tolist() == [n, n]
assert hvd.poll(h)
assert [a.item() for a in hvd.grouped_allreduce([torch.tensor(float(r)), torch.tensor(1.0)], op=hvd.Sum)] == [total, n]
assert hvd.allgather(torch.full((r + 1, 2), float(r))).shape == (n * (n + 1) // 2, 2)
assert hvd.broadcast(torch.tensor([r]), 1).item() == 1
assert hvd.alltoall(torch.arange(n) + 10 * r).tolist() == [10 * i + r for i in range(n)]
rows, counts = hvd.alltoall(torch.full((n + 1,), r), splits=[1] * (n - 1) + [2])
assert counts.tolist() == [2 if r == n - 1 else 1] * n
assert rows.tolist() == [i for i in range(n) for _ in range(2 if r == n - 1 else 1)]
assert hvd.reducescatter(torch.arange(2.0 * n), op=hvd.Sum).tolist() == [2.0 * r * n, (2.0 * r + 1) * n]
assert hvd.broadcast_object({"epoch": r}, 1) == {"epoch": 1}
assert hvd.allgather_object(r) == list(range(n))
even = hvd.add_process_set([0])
if even.included():
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=even).item() == 1
assert torch.allclose(
    hvd.allreduce(torch.tensor([1.0, 0.0] if r == 0 else [0.0, 1.0]), op=hvd.Adasum), torch.tensor([1.0, 1.0])
)  # at right angles: added
assert torch.allclose(
    hvd.allreduce(torch.tensor([1.0, 2.0]), op=hvd.Adasum), torch.tensor([1.0, 2.0])
)  # the same: once
hvd.shutdown()
