"""Ways of reducing gradients."""

from ddp_begin import F, Net, apart, data, n, r, sgd, train
import copy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def compare(steps=6, part=False, args=(), **options):
    torch.manual_seed(r)
    net = Net()
    ddp = DDP(net, **options)
    ref = copy.deepcopy(net)
    train(ddp, steps, sgd(ddp), *args)
    train(ref, steps, sgd(ref), *args, part=False)
    assert apart(net, ref) < 1e-6, (options, apart(net, ref))
    return ddp


ddp = compare(gradient_as_bucket_view=True, bucket_cap_mb=0.0005)
storages = {p.grad.untyped_storage().data_ptr() for p in ddp.parameters()}
assert storages == {b.flat.untyped_storage().data_ptr() for b in ddp.reducer.buckets}
ddp = compare(args=(False,), find_unused_parameters=True)
assert ddp.module.d.weight.grad is None
assert ddp.module.c.weight.grad is not None
compare(args=(False,), static_graph=True)
compare(static_graph=True)

# used on some ranks only: the others count as zero
torch.manual_seed(0)
net = Net()
ddp = DDP(net, find_unused_parameters=True)
X, Y = data()
F.cross_entropy(ddp(X, r == 0), Y).backward()
g = torch.autograd.grad(F.cross_entropy(net(X), Y), net.d.weight)[0] / n
assert torch.allclose(net.d.weight.grad, g, atol=1e-7)

# unused without asking: the next forward says which
ddp = DDP(copy.deepcopy(net))
F.cross_entropy(ddp(X, False), Y).backward()
try:
    ddp(X)
    raise AssertionError("went on")
except RuntimeError as error:
    assert "Expected to have finished reduction in the prior iteration" in str(error)
    assert "d.weight, d.bias" in str(error)
    assert "6 7" in str(error)

# no_sync: gradients add up on the rank alone until the first backward outside
a, b = copy.deepcopy(net), copy.deepcopy(net)
ddp = DDP(a)
x, y = X[r::n], Y[r::n]
with ddp.no_sync():
    F.cross_entropy(ddp(x[:8]), y[:8], reduction="sum").backward()
own = a.a.weight.grad.clone()
assert torch.equal(own, torch.autograd.grad(F.cross_entropy(a(x[:8]), y[:8], reduction="sum"), a.a.weight)[0])
F.cross_entropy(ddp(x[8:]), y[8:], reduction="sum").backward()
F.cross_entropy(b(X), Y, reduction="sum").backward()
assert torch.allclose(a.a.weight.grad * n, b.a.weight.grad, atol=1e-5)

# hooks
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

for hook, limit in (
    (default_hooks.allreduce_hook, 1e-7),
    (default_hooks.bf16_compress_hook, 5e-3),
    (default_hooks.fp16_compress_hook, 1e-3),
    (default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook), 5e-3),
):
    a, b = copy.deepcopy(net), copy.deepcopy(net)
    ddp = DDP(a)
    ddp.register_comm_hook(None, hook)
    F.cross_entropy(ddp(x), y).backward()
    F.cross_entropy(b(X), Y).backward()
    off = max((p.grad - q.grad).abs().max().item() for p, q in zip(a.parameters(), b.parameters()))
    assert off < limit, (hook.__name__, off)
    assert limit < 1e-6 or off > 0
seen = []


def own_hook(state, bucket):
    assert state == "state"
    assert isinstance(bucket, dist.GradBucket)
    assert len(bucket.gradients()) == len(bucket.parameters())
    assert bucket.is_last()
    assert not bucket.index()
    seen.append(bucket.buffer().numel())
    future = torch.futures.Future()
    future.set_result(bucket.buffer() * 0 + 2)
    return future


ddp = DDP(copy.deepcopy(net))
ddp.register_comm_hook("state", own_hook)
F.cross_entropy(ddp(x), y).backward()
assert seen
assert all(bool((p.grad == 2).all()) for p in ddp.parameters())

# forward in eval and without gradients is a plain call
ddp.eval()
with torch.no_grad():
    assert torch.equal(ddp(x), ddp.module(x))

# parameters that lie in another order have gradients in that order, as views of the bucket too
conv = torch.nn.Conv2d(3, 4, 2).to(memory_format=torch.channels_last)
ddp = DDP(conv, gradient_as_bucket_view=True)
ddp(torch.ones(1, 3, 4, 4)).sum().backward()
assert conv.weight.grad.stride() == conv.weight.stride()
assert conv.weight.grad.data_ptr() in {b.flat.data_ptr() + 4 * at for b in ddp.reducer.buckets for at in b.places}

# a wrapper that is gone leaves nothing on its parameters
own = copy.deepcopy(net)
ddp = DDP(own)
F.cross_entropy(ddp(x), y).backward()
del ddp
own.zero_grad()
F.cross_entropy(own(x), y).backward()
alone = torch.autograd.grad(F.cross_entropy(own(x), y), own.a.weight)[0]
assert torch.equal(own.a.weight.grad, alone)

# two backwards of one forward's parameters are one too many
ddp = DDP(copy.deepcopy(net))
ddp.reducer.prepare(None)
ddp.module.a.weight.sum().backward()
try:
    ddp.module.a.weight.sum().backward()
    raise AssertionError("went on")
except RuntimeError as error:
    assert "Expected to mark a variable ready only once: parameter 'a.weight'" in str(error), error


# gradients of other classes are copied by their own copy_
class Marked(torch.Tensor):
    copies = 0

    def copy_(self, other):
        Marked.copies += 1
        return super().copy_(other)


own, plain = copy.deepcopy(net), copy.deepcopy(net)
own.a.weight.grad = torch.zeros_like(own.a.weight).as_subclass(Marked)
for model in (own, plain):
    ddp = DDP(model)
    F.cross_entropy(ddp(x), y).backward()
assert type(own.a.weight.grad) is Marked
assert Marked.copies == 1
assert torch.equal(own.a.weight.grad.as_subclass(torch.Tensor), plain.a.weight.grad)

# embeddings with sparse gradients are averaged like the others
torch.manual_seed(0)
tables = [
    torch.nn.Sequential(torch.nn.Embedding(10, 3, sparse=sparse), torch.nn.Linear(3, 2)) for sparse in (False, True)
]
tables[1].load_state_dict(tables[0].state_dict())
words = torch.tensor([[1, 2, 2], [7, 2, 9]])
ddp = DDP(tables[1])
for step in range(2):
    for p in tables[1].parameters():
        p.grad = None
    ddp(words[r]).square().sum().backward()
sum(tables[0](words[i]).square().sum() for i in range(n)).backward()
for dense, sparse in zip(tables[0].parameters(), tables[1].parameters()):
    assert torch.allclose(dense.grad / n, sparse.grad, atol=1e-6)
