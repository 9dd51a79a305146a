"""Data parallel training: DistributedDataParallel, SyncBatchNorm, DataParallel, Horovod's interface and ZeroRedundancyOptimizer, each against one process with
the whole batch."""

import pytest
import taper as torch
from ranks import run_ranks
from taper import nn

BEGIN = """
import copy, sys
import torch, torch.nn as nn, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
F = nn.functional
dist.init_process_group("gloo")
r, n = dist.get_rank(), dist.get_world_size()

def data(rows=48):
    torch.manual_seed(7)
    return torch.randn(rows, 6), torch.randint(0, 3, (rows,))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 3), nn.Linear(16, 3)

    def forward(self, x, both=True):
        h = torch.relu(self.a(x))
        h = h + torch.tanh(self.b(h))
        return self.c(h) + self.d(h) if both else self.c(h)

def apart(a, b):
    return max((p - q).abs().max().item() for p, q in zip(a.parameters(), b.parameters()))

def train(model, steps, optimizer, *args, part=True, X=None, Y=None):
    if X is None:
        X, Y = data()
    for step in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(X[r::n] if part else X, *args), Y[r::n] if part else Y)
        loss.backward()
        optimizer.step()

def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

def bits(model):
    import hashlib
    h = hashlib.sha256()
    for p in model.parameters():
        h.update(bytes(p.detach().contiguous().view(torch.uint8).flatten().tolist()))
    return h.hexdigest()
"""

FIGURE = (
    BEGIN
    + """
torch.manual_seed(r)  # rank 0's parameters count
net = Net()
ddp = DDP(net, bucket_cap_mb=0.0005)
assert len(ddp.reducer.buckets) > 1 and list(ddp.state_dict())[0] == "module.a.weight"
ref = copy.deepcopy(net)
train(ddp, 50, sgd(ddp))
train(ref, 50, sgd(ref), part=False)
assert apart(net, ref) < 1e-6, apart(net, ref)
if r == 0:
    print(bits(net))
"""
)


def test_the_weights_of_one_process_and_the_same_bits_each_run(tmp_path):
    """After 50 steps, for 1, 2 and 4 ranks."""
    for count in (1, 2):
        run_ranks(count, FIGURE, tmp_path)
    first, second = (run_ranks(4, FIGURE, tmp_path)[0].strip() for _ in range(2))
    assert first == second and len(first) == 64


WAYS = (
    BEGIN
    + """
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
assert ddp.module.d.weight.grad is None and ddp.module.c.weight.grad is not None
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
    assert "Expected to have finished reduction in the prior iteration" in str(error) and "d.weight, d.bias" in str(error) and "6 7" in str(error)

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
for hook, limit in ((default_hooks.allreduce_hook, 1e-7), (default_hooks.bf16_compress_hook, 5e-3), (default_hooks.fp16_compress_hook, 1e-3),
                    (default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook), 5e-3)):
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
    assert state == "state" and isinstance(bucket, dist.GradBucket) and len(bucket.gradients()) == len(bucket.parameters()) and bucket.is_last() and not bucket.index()
    seen.append(bucket.buffer().numel())
    future = torch.futures.Future()
    future.set_result(bucket.buffer() * 0 + 2)
    return future
ddp = DDP(copy.deepcopy(net))
ddp.register_comm_hook("state", own_hook)
F.cross_entropy(ddp(x), y).backward()
assert seen and all(bool((p.grad == 2).all()) for p in ddp.parameters())

# forward in eval and without gradients is a plain call
ddp.eval()
with torch.no_grad():
    assert torch.equal(ddp(x), ddp.module(x))
"""
)


def test_ways_of_reducing(tmp_path):
    run_ranks(2, WAYS, tmp_path)


UNEVEN = (
    BEGIN
    + """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
ddp = DDP(net)
X, Y = data()
opt = sgd(ddp)
steps = 0
with ddp.join():
    for i in range(2 + 3 * r):  # ranks have 2, 5, 8 batches
        opt.zero_grad()
        F.cross_entropy(ddp(X[i * 4:i * 4 + 4]), Y[i * 4:i * 4 + 4]).backward()
        opt.step()
        steps += 1
every = [None] * n
dist.all_gather_object(every, ([p.tolist() for p in net.state_dict().values()], steps))
assert all(one[0] == every[0][0] for one in every) and [one[1] for one in every] == [2 + 3 * i for i in range(n)]
try:
    with ddp.join(throw_on_early_termination=True):
        for i in range(1 + r):
            ddp(X)
    raise AssertionError("nobody said that inputs ran out")
except RuntimeError as error:
    assert "exhausted" in str(error)
"""
)


def test_uneven_inputs(tmp_path):
    run_ranks(3, UNEVEN, tmp_path)


DIFFERENT = (
    BEGIN
    + """
net = nn.Sequential(nn.Linear(6, 5 if r == 0 else 4), nn.Linear(3, 3))
try:
    DDP(net)
    raise AssertionError("different models went together")
except RuntimeError as error:
    text = str(error)
    assert "rank 1 has parameter '0.weight' [4, 6] float32 where rank 0 has parameter '0.weight' [5, 6] float32" in text, text
try:
    DDP(nn.ReLU())
    raise AssertionError
except RuntimeError as error:
    assert "doesn't have any parameters" in str(error)
"""
)


def test_different_models_are_told_apart(tmp_path):
    run_ranks(2, DIFFERENT, tmp_path)


NORM = (
    BEGIN
    + """
torch.manual_seed(0)
plain = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 9, 3))
net = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain))
assert type(net[1]) is nn.SyncBatchNorm
ddp = DDP(net)
X, Y = torch.randn(12, 2, 5, 5), torch.randint(0, 3, (12,))
cut = [0, 3, 12] if n == 2 else [0, 12]  # different batches
x, y = X[cut[r]:cut[r + 1]].requires_grad_(), Y[cut[r]:cut[r + 1]]
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
assert torch.allclose(gx, gz[cut[r]:cut[r + 1]], atol=1e-6)
net.eval(), plain.eval()
assert torch.allclose(net(X), plain(X), atol=1e-5)
"""
)


def test_batch_norm_over_all_ranks(tmp_path):
    run_ranks(2, NORM, tmp_path)


HOROVOD = """
import copy
import torch, torch.nn as nn, horovod.torch as hvd
F = nn.functional
hvd.init()
r, n = hvd.rank(), hvd.size()
assert (hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size(), hvd.is_initialized()) == (r, n, 0, 1, True)
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
    o = hvd.DistributedOptimizer(torch.optim.SGD(net2.parameters(), lr=0.1, momentum=0.9), named_parameters=net2.named_parameters(), backward_passes_per_step=passes, **options)
    q = torch.optim.SGD(ref.parameters(), lr=0.1, momentum=0.9)
    assert isinstance(o, torch.optim.SGD)
    for step in range(10):
        o.zero_grad()
        for k in range(passes):
            x, y = X[r * passes + k::n * passes], Y[r * passes + k::n * passes]
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
assert hvd.synchronize(h) is t and t.tolist() == [n, n] and hvd.poll(h)
assert [a.item() for a in hvd.grouped_allreduce([torch.tensor(float(r)), torch.tensor(1.)], op=hvd.Sum)] == [total, n]
assert hvd.allgather(torch.full((r + 1, 2), float(r))).shape == (n * (n + 1) // 2, 2)
assert hvd.broadcast(torch.tensor([r]), 1).item() == 1
assert hvd.alltoall(torch.arange(n) + 10 * r).tolist() == [10 * i + r for i in range(n)]
rows, counts = hvd.alltoall(torch.full((n + 1,), r), splits=[1] * (n - 1) + [2])
assert counts.tolist() == [2 if r == n - 1 else 1] * n and rows.tolist() == [i for i in range(n) for _ in range(2 if r == n - 1 else 1)]
assert hvd.reducescatter(torch.arange(2. * n), op=hvd.Sum).tolist() == [2. * r * n, (2. * r + 1) * n]
assert hvd.broadcast_object({"epoch": r}, 1) == {"epoch": 1} and hvd.allgather_object(r) == list(range(n))
even = hvd.add_process_set([0])
if even.included():
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=even).item() == 1
assert torch.allclose(hvd.allreduce(torch.tensor([1., 0.] if r == 0 else [0., 1.]), op=hvd.Adasum), torch.tensor([1., 1.]))  # at right angles: added
assert torch.allclose(hvd.allreduce(torch.tensor([1., 2.]), op=hvd.Adasum), torch.tensor([1., 2.]))  # the same: once
hvd.shutdown()
"""


def test_horovod(tmp_path):
    run_ranks(2, HOROVOD, tmp_path)


ELASTIC = """
import os, torch, horovod.torch as hvd
hvd.init()
net = torch.nn.Linear(1, 1, bias=False)
with torch.no_grad():
    net.weight.fill_(0.)
state = hvd.elastic.TorchState(model=net, batch=0)

@hvd.elastic.run
def train(state):
    while state.batch < 5:
        with torch.no_grad():
            state.model.weight.add_(1.)
        state.batch += 1
        if state.batch == 2:
            state.commit()
        if state.batch == 3 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and hvd.rank() == 1:
            os._exit(1)
    return state.batch

assert train(state) == 5 and net.weight.item() == 5., (state.batch, net.weight)
print("restarts", os.environ["TORCHELASTIC_RESTART_COUNT"])
"""


def test_horovod_begins_at_the_last_commit(tmp_path):
    import subprocess
    import sys

    (tmp_path / "train.py").write_text(ELASTIC)
    done = subprocess.run(
        [sys.executable, "-m", "taper", "launch", "--nproc", "2", "--max-restarts", "1", str(tmp_path / "train.py")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and done.stdout.splitlines().count("restarts 1") == 2, done.stderr


ZERO = (
    BEGIN
    + """
from torch.distributed.optim import ZeroRedundancyOptimizer
torch.manual_seed(0)
net, ref = Net(), None
ddp = DDP(net)
ref = copy.deepcopy(net)
zero = ZeroRedundancyOptimizer(ddp.parameters(), optimizer_class=torch.optim.AdamW, lr=0.02)
plan = torch.optim.lr_scheduler.StepLR(zero, 3, 0.5)
opt = torch.optim.AdamW(ref.parameters(), lr=0.02)
plan2 = torch.optim.lr_scheduler.StepLR(opt, 3, 0.5)
for step in range(5):
    train(ddp, 1, zero)
    train(ref, 1, opt, part=False)
    plan.step(), plan2.step()
assert apart(net, ref) < 2e-6, apart(net, ref)
assert len(zero.optim.state) < len(opt.state) and zero.param_groups[0]["lr"] == opt.param_groups[0]["lr"] == 0.01
try:
    zero.state_dict()
    raise AssertionError
except RuntimeError as error:
    assert "consolidate_state_dict" in str(error)
zero.consolidate_state_dict(to=0)
box = [zero.state_dict() if r == 0 else None]
dist.broadcast_object_list(box, 0)
assert sorted(box[0]["state"]) == list(range(8))
opt2 = torch.optim.AdamW(copy.deepcopy(ref).parameters(), lr=1.)
opt2.load_state_dict(box[0])  # what one process could go on with
again = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.AdamW, lr=1.)
again.load_state_dict(box[0])
train(ddp, 3, again)
train(ref, 3, opt, part=False)
assert apart(net, ref) < 2e-6, apart(net, ref)
"""
)


def test_zero_redundancy_optimizer(tmp_path):
    run_ranks(3, ZERO, tmp_path)


def test_data_parallel_over_devices_of_one_process():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    x = torch.randn(7, 6)
    both = nn.DataParallel(net, device_ids=["cpu", "cpu"])
    y = both(x)
    assert torch.equal(y, net(x))
    y.square().sum().backward()
    got = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net(x).square().sum().backward()
    assert all(torch.allclose(a, p.grad, atol=1e-6) for a, p in zip(got, net.parameters()))
    assert torch.equal(both(x[:1]), net(x[:1])) and list(both.state_dict())[0] == "module.0.weight"

    class Fails(nn.Module):
        def forward(self, x):
            raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        nn.DataParallel(Fails(), device_ids=["cpu", "cpu"])(x)
    with torch.no_grad():
        assert not both(x).requires_grad


def test_callbacks_at_the_end_of_a_backward():
    w, said = torch.ones(3, requires_grad=True), []
    w.register_post_accumulate_grad_hook(
        lambda p: torch.autograd.Variable._execution_engine.queue_callback(lambda: said.append(p.grad.sum().item()))
    )
    (w * 2).sum().backward()
    assert said == [6.0]
    with pytest.raises(RuntimeError, match="during backward"):
        torch.autograd.graph.queue_callback(print)

    def fails(p):
        torch.autograd.graph.queue_callback(lambda: said.append("not"))
        raise KeyError("hook")

    v = torch.ones(3, requires_grad=True)
    v.register_post_accumulate_grad_hook(fails)
    with pytest.raises(KeyError):
        v.sum().backward()
    (w * 2).sum().backward()
    assert said == [6.0, 12.0]


OVERLAP = (
    BEGIN
    + """
import threading, time, queue

class Slow(torch.autograd.Function):  # a backward that takes its time without using the processor
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        done.append(len(spent))
        time.sleep(0.03)
        return grad

class Layer(nn.Linear):
    def forward(self, x):
        return Slow.apply(super().forward(x))

wire, spent, done = queue.Queue(), [], []
def carry():  # one message after the other, each as long as a layer's backward
    while True:
        bucket, future = wire.get()
        time.sleep(0.03)
        spent.append(bucket.index())
        future.set_result(bucket.buffer())
threading.Thread(target=carry, daemon=True).start()

def hook(state, bucket):
    future = torch.futures.Future()
    wire.put((bucket, future))
    return future

net = nn.Sequential(*[Layer(64, 64) for _ in range(8)])
ddp = DDP(net, bucket_cap_mb=0.01)
ddp.register_comm_hook(None, hook)
assert len(ddp.reducer.buckets) == 8
x = torch.randn(2, 64)
best = 0
for step in range(6):
    spent.clear(), done.clear()
    ddp(x).sum().backward()
    assert spent == list(range(8))  # all are there when the backward returns
    best = max(best, done[-1])
assert best >= 4, best  # half of the messages had arrived when the last layer's backward began
"""
)


def test_reductions_run_while_the_backward_does(tmp_path):
    """A backward and its messages that take equally long: at least half of the messages travel meanwhile."""
    run_ranks(1, OVERLAP, tmp_path)


DIFFERENTIABLE = (
    BEGIN
    + """
import torch.distributed.nn.functional as D
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, CheckpointWrapper, apply_activation_checkpointing, checkpoint_wrapper
x = torch.full((2,), float(r + 1), requires_grad=True)

def grad_of(y):
    x.grad = None
    y.sum().backward()
    return x.grad.tolist()

y = torch.stack(D.all_gather(x))
assert y.tolist() == [[1., 1.], [2., 2.]] and grad_of(y * (r + 1) * torch.tensor([[1.], [10.]])) == [3. if r == 0 else 30.] * 2
assert D.all_reduce(x).tolist() == [3., 3.] and grad_of(D.all_reduce(x) * (r + 1)) == [3., 3.]
assert D.broadcast(x, 1).tolist() == [2., 2.] and grad_of(D.broadcast(x, 1) * (r + 1)) == ([0., 0.] if r == 0 else [3., 3.])
assert grad_of(D.reduce(x, 0) * (r + 1)) == [1., 1.]
y = torch.stack(D.gather(x, 0))
assert y.tolist() == ([[1., 1.], [2., 2.]] if r == 0 else [[0., 0.]] * 2) and grad_of(y * torch.tensor([[1.], [10.]])) == [10. ** r] * 2
z = [torch.full((2,), 10. * r + i, requires_grad=True) for i in range(2)]
s = D.scatter(z, 1)
(s * (r + 1)).sum().backward()
assert s.tolist() == [10. + r] * 2 and [v.grad.tolist() for v in z] == ([[0., 0.]] * 2 if r == 0 else [[1., 1.], [2., 2.]])
assert D.reduce_scatter(torch.zeros(2), z).tolist() == [10. + 2 * r] * 2
assert D.all_to_all_single(torch.zeros(2), torch.arange(2.) + 10 * r).tolist() == [r, 10. + r]

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
ref = copy.deepcopy(net)
apply_activation_checkpointing(net, check_fn=lambda module: isinstance(module, nn.Linear))
assert isinstance(net[0], CheckpointWrapper) and isinstance(net[1][0], CheckpointWrapper) and not isinstance(net[1], CheckpointWrapper)
i = torch.randn(4, 3)
net(i).sum().backward(), ref(i).sum().backward()
assert all(torch.equal(p.grad, q.grad) for p, q in zip(net.parameters(), ref.parameters()))
assert list(net.state_dict()) == list(ref.state_dict()) and str(net.load_state_dict(ref.state_dict())) == "<All keys matched successfully>"

from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
net = nn.Linear(4, 4)
fully_shard(net)
opt, scaler = torch.optim.SGD(net.parameters(), lr=0.1), ShardedGradScaler(device="cpu", init_scale=4.)
for overflow in (False, True):
    opt.zero_grad()
    scaler.scale(net(torch.ones(2, 4)).sum()).backward()
    if overflow and r == 0:
        net.weight.grad.to_local().fill_(float("inf"))
    before = net.weight.full_tensor().clone()
    scaler.step(opt)
    scaler.update()
    assert torch.equal(before, net.weight.full_tensor()) == overflow and scaler.get_scale() == (2. if overflow else 4.)
"""
)


def test_collectives_with_gradients_and_wrappers(tmp_path):
    run_ranks(2, DIFFERENTIABLE, tmp_path)


def test_the_example_saves_when_told_and_goes_on(tmp_path):
    """SIGUSR1 to the launcher, as from a scheduler; then two ranks go on where three were, with the losses of a run that nobody stopped."""
    import os
    import re
    import signal
    import subprocess
    import sys

    from test_scripts import EXAMPLES, digits

    digits(str(tmp_path), train=600, test=100)
    script = os.path.join(EXAMPLES, "python", "data_parallel.py")

    def start(ranks, checkpoint, *more):
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "taper",
                "launch",
                "--nproc",
                str(ranks),
                script,
                "--data",
                str(tmp_path),
                "--checkpoint",
                str(tmp_path / checkpoint),
                "--batch-size",
                "24",
                "--log-interval",
                "5",
                *more,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def losses(text):
        return {match[1]: float(match[2]) for match in re.finditer(r"(epoch \d+ batch \d+) loss (\S+)", text)}

    first = start(3, "a", "--epochs", "40")
    begun = first.stdout.readline()
    first.send_signal(signal.SIGUSR1)
    out, err = first.stdout.read(), first.stderr.read()  # communicate() would lose lines that came with the first one
    assert first.wait(60) == 0 and "saved at epoch" in out, out + err
    whole, err = start(1, "b", "--epochs", "2").communicate(timeout=60)
    assert whole.endswith("done\n"), err
    second, err = start(2, "a", "--epochs", "2").communicate(timeout=60)
    where = re.search(r"saved at (epoch \d+ batch \d+)", out)[1]
    assert second.startswith(f"goes on at {where}") and second.endswith("done\n"), second + err
    assert losses(begun + out + second).keys() >= losses(whole).keys()
    for at, loss in losses(whole).items():
        assert abs(losses(begun + out + second)[at] - loss) < 2e-3, at
