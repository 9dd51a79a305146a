"""Functional collectives and queues."""

from distributed_names_begin import W, fails, n, r
import torch
import torch.distributed as dist

import torch.distributed._functional_collectives as fc
from torch.distributed.device_mesh import init_device_mesh

x = torch.arange(4.0) + 10 * r
for group in (W, [0, 1], [[0, 1]], W.group_name, init_device_mesh("cpu", (2,)), (init_device_mesh("cpu", (2,)), 0)):
    assert fc.wait_tensor(fc.all_reduce(x, "sum", group)).tolist() == [10, 12, 14, 16]
assert fc.all_reduce(x, "avg", W).tolist() == [5, 6, 7, 8]
assert fc.all_reduce(x, dist.ReduceOp.MAX, W).tolist() == [
    10,
    11,
    12,
    13,
]
assert fc.all_gather_tensor(x.view(2, 2), 1, W).tolist() == [[0, 1, 10, 11], [2, 3, 12, 13]]
assert fc.reduce_scatter_tensor(x, "sum", 0, W).tolist() == [10 + 4 * r, 12 + 4 * r]
assert fc.reduce_scatter_tensor(x.view(2, 2), "sum", 1, W).tolist() == [[10 + 2 * r], [14 + 2 * r]]
assert fc.all_to_all_single(x, [1, 1] if r == 0 else [3, 3], [1, 3], W).tolist() == (
    [0, 10] if r == 0 else [1, 2, 3, 11, 12, 13]
)
assert fc.broadcast(x, 1, W).tolist() == [10, 11, 12, 13]
assert fc.permute_tensor(x, [1, 0], W).tolist() == [10 - 10 * r + i for i in range(4)]
y = x.clone()
fc.all_reduce_inplace(y)
assert y.tolist() == [10, 12, 14, 16]
assert [t.tolist() for t in fc.all_reduce_coalesced([x, x], "sum", W)] == [[10, 12, 14, 16]] * 2


def grad(call):
    t = x.clone().requires_grad_()
    y = call(t)
    (y * torch.arange(1.0, y.numel() + 1).view(y.shape) * (r + 1)).sum().backward()
    return t.grad.tolist()


# As PyTorch 2.15 gives them.
assert grad(lambda t: fc.all_reduce(t, "sum", W)) == [3, 6, 9, 12]
assert grad(lambda t: fc.all_reduce(t, "avg", W)) == [
    1.5,
    3,
    4.5,
    6,
]
assert grad(lambda t: fc.all_reduce(t, "max", W)) == ([0] * 4 if r == 0 else [3, 6, 9, 12])
assert grad(lambda t: fc.all_gather_tensor(t, 0, W)) == ([3, 6, 9, 12] if r == 0 else [15, 18, 21, 24])
assert grad(lambda t: fc.reduce_scatter_tensor_autograd(t, "sum", 0, W)) == [1, 2, 2, 4]
assert grad(lambda t: fc.all_to_all_single_autograd(t, [2, 2], [2, 2], W)) == ([1, 2, 2, 4] if r == 0 else [3, 4, 6, 8])
fails(RuntimeError, "only supports 'sum'", lambda: grad(lambda t: fc.reduce_scatter_tensor(t, "avg", 0, W)))
fails(ValueError, "Unknown reduce op 'mean'", lambda: fc.all_reduce(x, "mean", W))

# Queues and barriers of stores.
store = dist.distributed_c10d._get_default_store()
if r == 0:
    for text in ("a", "b", "c"):
        store.queue_push("work", text)
got = [None] * n
store.barrier("pushed", n)
mine = [store.queue_pop("work")]
dist.all_gather_object(got, mine[0])
assert len(set(got)) == 2
assert store.queue_len("work") == 1
dist.barrier()
if r == 0:
    assert store.queue_pop("work") in (b"a", b"b", b"c")
    fails(dist.QueueEmptyError, "queue is empty", lambda: store.queue_pop("work", block=False))
assert store.compare_set("k", "", "1") == b"1"
assert store.multi_get(["k"]) == [b"1"]
