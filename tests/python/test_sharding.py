"""Models and states in parts: DTensor, fully_shard and FullyShardedDataParallel, tensor and pipeline parallel layers, DeepSpeed's engine, and sharded checkpoints
that another number of ranks loads. Each against one process with the whole of it."""

import os
import subprocess
import sys

import pytest
import taper as torch
import taper.distributed.checkpoint as dcp
from ranks import run_ranks

BEGIN = """
import copy, sys
import torch, torch.nn as nn, torch.distributed as dist
F = nn.functional
dist.init_process_group("gloo")
r, n = dist.get_rank(), dist.get_world_size()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.scale = nn.Linear(6, 17), nn.Linear(17, 3), nn.Parameter(torch.tensor([1.5]))
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(17, 17), nn.Tanh()) for _ in range(3)])

    def forward(self, x):
        x = torch.relu(self.first(x))
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x) * self.scale

torch.manual_seed(7)
X, Y = torch.randn(48, 6), torch.randint(0, 3, (48,))
torch.manual_seed(3)

def apart(state, ref):
    ref = ref.state_dict()
    assert sorted(state) == sorted(ref), (sorted(state), sorted(ref))
    return max((state[name].float() - ref[name]).abs().max().item() for name in ref)
"""

TENSORS = (
    BEGIN
    + """
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
mesh = init_device_mesh("cpu", (n,), mesh_dim_names=("x",))
assert mesh.size() == n and mesh.get_local_rank() == r and mesh["x"].get_group() is mesh.get_group("x") and mesh.get_coordinate() == (r,)
x = torch.randn(5, 3)
for placement in (Shard(0), Shard(1), Replicate()):
    d = distribute_tensor(x, mesh, [placement])
    assert d.shape == (5, 3) and d.numel() == 15 and torch.equal(d.full_tensor(), x) and d.placements == (placement,)
    assert torch.equal((d * 2 + 1).full_tensor(), x * 2 + 1) and isinstance(d * 2, DTensor)
    y = d @ distribute_tensor(x.t(), mesh, [Replicate()])
    assert isinstance(y, DTensor) and torch.allclose(y.full_tensor(), x @ x.t(), atol=1e-6) and torch.allclose(d.sum().full_tensor(), x.sum()) and torch.equal(d.redistribute(placements=[Shard(1)]).full_tensor(), x)
d = distribute_tensor(x, mesh, [Shard(0)])
assert d.to_local().shape == ((3, 3) if r == 0 else (2, 3))
assert DTensor.from_local(torch.ones(2, 2), mesh, [Partial()]).full_tensor().tolist() == [[n] * 2] * 2
assert DTensor.from_local(torch.full((r + 1, 2), 1.), mesh, [Shard(0)]).shape == (n * (n + 1) // 2, 2)
p = nn.Parameter(d)
assert isinstance(p, nn.Parameter) and isinstance(p, DTensor) and p.is_leaf and p.requires_grad
q = nn.Parameter(x.clone())
for one in (p, q):
    one.square().sum().backward()
assert isinstance(p.grad, DTensor) and torch.equal(p.grad.full_tensor(), q.grad)
a, b = (nn.utils.clip_grad_norm_([one], 0.5) for one in (p, q))
assert torch.allclose(a, b)
oa, ob = torch.optim.AdamW([p], lr=0.1), torch.optim.AdamW([q], lr=0.1)
oa.step(), ob.step()
assert torch.allclose(p.full_tensor(), q) and isinstance(oa.state_dict()["state"][0]["exp_avg"], DTensor)
oa.zero_grad()
assert p.grad is None
with torch.no_grad():
    p.copy_(x)
    assert torch.equal(p.full_tensor(), x)
    p.zero_()
    assert not p.full_tensor().any()
"""
)


def test_tensors_in_parts(tmp_path):
    run_ranks(2, TENSORS, tmp_path)


SHARDED = (
    BEGIN
    + """
import functools
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict, set_state_dict
from torch.distributed.fsdp import (FullyShardedDataParallel as FSDP, FSDPModule, MixedPrecisionPolicy, ShardingStrategy, StateDictType, fully_shard)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy, size_based_auto_wrap_policy, transformer_auto_wrap_policy
whole = StateDictOptions(full_state_dict=True)

def steps(model, opt, count, part=True, accumulate=None):
    for step in range(count):
        opt.zero_grad()
        x, y = (X[r::n], Y[r::n]) if part else (X, Y)
        F.cross_entropy(model(x).float(), y).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
    return norm

def wrapped(kind, net):
    if kind == "fully_shard":
        for layer in net.layers:
            fully_shard(layer)
        assert fully_shard(net) is net and isinstance(net, FSDPModule) and isinstance(net, Net)
        return net
    policy = {"FULL_SHARD": ModuleWrapPolicy({nn.Sequential}), "SHARD_GRAD_OP": functools.partial(size_based_auto_wrap_policy, min_num_params=200),
              "NO_SHARD": functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.Sequential})}[kind]
    return FSDP(net, auto_wrap_policy=policy, sharding_strategy=ShardingStrategy[kind], sync_module_states=True)

for kind in ("fully_shard", "FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"):
    torch.manual_seed(3)
    net = Net()
    ref = copy.deepcopy(net)
    model = wrapped(kind, net)
    opt, ropt = torch.optim.AdamW(model.parameters(), lr=0.01), torch.optim.AdamW(ref.parameters(), lr=0.01)
    a, b = steps(model, opt, 5), steps(ref, ropt, 5, part=False)
    assert torch.allclose(a, b, rtol=1e-5), (kind, a, b)
    state = get_model_state_dict(model, options=whole)
    assert apart(state, ref) < 1e-6, (kind, apart(state, ref))
    held = sum(p.to_local().numel() for p in model.parameters())
    total = sum(p.numel() for p in ref.parameters())
    assert held == total if kind == "NO_SHARD" else held < 0.6 * total, (kind, held, total)
    units = [m.__dict__["_fsdp_unit"] for m in model.modules() if "_fsdp_unit" in m.__dict__]
    assert len(units) > 3 and all(one.whole.untyped_storage().nbytes() == 0 for unit in units for one in unit.params)  # at rest nothing is whole
    if kind != "fully_shard":
        plain = model.state_dict()
        assert type(plain["first.weight"]) is torch.Tensor and list(plain) == list(ref.state_dict()) and [name for name, _ in model.named_parameters()] == list(ref.state_dict())
        with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
            assert hasattr(model.state_dict()["first.weight"], "to_local")
        with FSDP.summon_full_params(model):
            assert net.first.weight.shape == (17, 6) and torch.allclose(net.first.weight, ref.first.weight, atol=1e-6)
            with torch.no_grad():
                net.first.bias.fill_(4.)
        assert model.state_dict()["first.bias"].tolist() == [4.] * 17
        model.load_state_dict(ref.state_dict())
        assert apart(model.state_dict(), ref) == 0
    else:  # a state of one process, into a model in parts
        ms, os_ = get_state_dict(model, opt)
        assert hasattr(os_["state"]["first.weight"]["exp_avg"], "to_local")
        set_state_dict(model, opt, model_state_dict=ref.state_dict(), optim_state_dict=copy.deepcopy(get_state_dict(ref, ropt)[1]))
        steps(model, opt, 3), steps(ref, ropt, 3, part=False)
        assert apart(get_model_state_dict(model, options=whole), ref) < 1e-6

# gradients add up without being reduced
torch.manual_seed(3)
net = Net()
ref = copy.deepcopy(net)
fully_shard(net)
x, y = X[r::n], Y[r::n]
half = len(x) // 2
net.set_requires_gradient_sync(False)
F.cross_entropy(net(x[:half]), y[:half], reduction="sum").backward()
assert all(p.grad is None for p in net.parameters())
net.set_requires_gradient_sync(True)
F.cross_entropy(net(x[half:]), y[half:], reduction="sum").backward()
F.cross_entropy(ref(X), Y, reduction="sum").backward()
for p, q in zip(net.parameters(), ref.parameters()):
    assert torch.allclose(p.grad.full_tensor() * n, q.grad, atol=1e-4)

# 16 bits while it computes
torch.manual_seed(3)
net = Net()
fully_shard(net, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32))
y = net(X[r::n])
assert y.dtype == torch.float32
y.sum().backward()
assert all(p.dtype == torch.float32 and p.grad.dtype == torch.float32 for p in net.parameters())
with torch.no_grad():
    assert net(X).shape == (48, 3)
"""
)


def test_fully_sharded(tmp_path):
    run_ranks(2, SHARDED, tmp_path)


SHAPES = (
    BEGIN
    + """
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
from torch.utils.checkpoint import checkpoint
whole = StateDictOptions(full_state_dict=True)

class Tied(nn.Module):  # one weight in two places, a frozen one, one that only the first rank uses, and one that nobody does
    def __init__(self):
        super().__init__()
        self.inside, self.outside = nn.Embedding(12, 8), nn.Linear(8, 12, bias=False)
        self.outside.weight = self.inside.weight
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.frozen, self.some, self.none = nn.Linear(8, 8).requires_grad_(False), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, i, some):
        x = self.frozen(self.inside(i))
        for layer in self.layers:
            x = x + torch.tanh(checkpoint(layer, x, use_reentrant=False))
        return self.outside(x + self.some(x) if some else x)

I, J = torch.randint(0, 12, (16,)), torch.randint(0, 12, (16,))
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
assert mesh["shard"].size() == 2 and mesh["shard"].get_local_rank() == r % 2 and mesh.get_local_rank("replicate") == r // 2
for options in ({}, {"mesh": mesh}):
    torch.manual_seed(3)
    net = Tied()
    ref = copy.deepcopy(net)
    for layer in net.layers:
        fully_shard(layer, **options)
    fully_shard(net, **options)
    assert net.inside.weight is net.outside.weight
    opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=0.01)
    ropt = torch.optim.AdamW([p for p in ref.parameters() if p.requires_grad], lr=0.01)
    for step in range(4):
        opt.zero_grad(), ropt.zero_grad()
        F.cross_entropy(net(I[r::n], r == 0), J[r::n]).backward()
        (sum(F.cross_entropy(ref(I[k::n], k == 0), J[k::n]) for k in range(n)) / n).backward()
        assert net.none.weight.grad is None and net.some.weight.grad is not None and net.frozen.weight.grad is None
        opt.step(), ropt.step()
    state = get_model_state_dict(net, options=whole)
    assert apart(state, ref) < 1e-6, (options, apart(state, ref))
    dcp.save({"net": get_model_state_dict(net)}, checkpoint_id=sys.argv[1])
    got = {"net": {name: torch.zeros_like(value) for name, value in ref.state_dict().items()}}
    dcp.load(got, checkpoint_id=sys.argv[1])
    assert apart(got["net"], ref) < 1e-6
"""
)


def test_weights_in_two_places_unused_ones_and_meshes_of_two_dimensions(tmp_path):
    run_ranks(4, SHAPES, tmp_path, arguments=[str(tmp_path / "saved")])


LAYERS = (
    BEGIN
    + """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, ScheduleLoopedBFS
from torch.distributed.pipelining.schedules import get_schedule_class
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.up, self.down = nn.Embedding(10, 6), nn.LayerNorm(6), nn.Linear(6, 8 * n + 1), nn.Linear(8 * n + 1, 6)

    def forward(self, i):
        x = self.embed(i)
        return x + self.down(torch.relu(self.up(self.norm(x))))

mesh = init_device_mesh("cpu", (n,))
I = torch.randint(0, 10, (4, 6))
plans = [{"embed": RowwiseParallel(input_layouts=Replicate()), "up": ColwiseParallel(), "down": RowwiseParallel()},
         {"embed": ColwiseParallel(output_layouts=Replicate()), "up": ColwiseParallel(output_layouts=Replicate()), "down": RowwiseParallel(input_layouts=Replicate())},
         {"embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel(), "up": ColwiseParallel(input_layouts=Shard(1)),
          "down": RowwiseParallel(output_layouts=Shard(1))}]
for number, plan in enumerate(plans):
    torch.manual_seed(5)
    block = Block()
    ref = copy.deepcopy(block)
    parallelize_module(block, mesh, plan)
    y, z = block(I), ref(I)
    if number == 2:  # each rank has some of the positions
        start, count = Shard(1).part(6, n, r)
        assert torch.allclose(y, z[:, start:start + count], atol=1e-6)
    else:
        assert torch.allclose(y, z, atol=1e-6)
    y.square().sum().backward()
    z.square().sum().backward()
    for (name, p), q in zip(block.named_parameters(), ref.parameters()):
        got = p.grad.full_tensor() if hasattr(p, "full_tensor") else p.grad
        assert torch.allclose(got, q.grad, atol=1e-5), (number, name, (got - q.grad).abs().max())
assert block.up.weight.to_local().numel() < block.up.weight.numel()

torch.manual_seed(1)
full = nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(n - 1)], nn.Linear(6, 3))
ref = copy.deepcopy(full)
F.cross_entropy(ref(X), Y).backward()
for schedule in (ScheduleGPipe, Schedule1F1B):
    stage = PipelineStage(copy.deepcopy(full)[r], r, n, torch.device("cpu"))
    plan = schedule(stage, n_microbatches=6, loss_fn=F.cross_entropy)
    for step in range(2):
        stage.submod.zero_grad()
        losses = []
        out = plan.step(X) if r == 0 else plan.step(target=Y, losses=losses) if r == n - 1 else plan.step()
        assert all(torch.allclose(p.grad, q.grad, atol=1e-6) for p, q in zip(stage.submod.parameters(), ref[r].parameters()))
        assert r != n - 1 or len(losses) == 6 and torch.allclose(out, ref(X), atol=1e-6)
order = [what[0] for what, _ in Schedule1F1B(PipelineStage(full[r], r, n, "cpu"), 6)._order(6)]
assert "".join(order) == {0: "fffbfbfbfbbb", 1: "ffbfbfbfbfbb", 2: "fbfbfbfbfbfb"}[r], order

# Two stages on each rank.
full = nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(2 * n - 1)], nn.Linear(6, 3))
ref = copy.deepcopy(full)
F.cross_entropy(ref(X), Y).backward()
for schedule, parts in ((ScheduleInterleaved1F1B, 6), (ScheduleInterleaved1F1B, 4), (ScheduleInterleaved1F1B, 1), (ScheduleLoopedBFS, 4)):
    stages = [PipelineStage(copy.deepcopy(full)[i], i, 2 * n, torch.device("cpu")) for i in (r, r + n)]
    plan = schedule(stages, n_microbatches=parts, loss_fn=F.cross_entropy)
    for step in range(2):
        for stage in stages:
            stage.submod.zero_grad()
        losses = []
        out = plan.step(X) if r == 0 else plan.step(target=Y, losses=losses) if r == n - 1 else plan.step()
        for stage in stages:
            assert all(torch.allclose(p.grad, q.grad, atol=1e-6) for p, q in zip(stage.submod.parameters(), ref[stage.stage_index].parameters()))
        assert r != n - 1 or len(losses) == parts and torch.allclose(out, ref(X), atol=1e-6)
    out = plan.eval(X) if r == 0 else plan.eval()
    assert r != n - 1 or torch.allclose(out, ref(X), atol=1e-6)
order = "".join(f"{what[0]}{stage}{part} " for what, stage, part in ScheduleInterleaved1F1B(stages, 3)._plan(3))
assert order == {2: "f00 f01 f02 f10 b10 f11 b11 f12 b12 b00 b01 b02 ", 1: "f00 f01 f02 f10 f11 f12 b10 b11 b12 b00 b01 b02 "}.get(r, order), order
assert get_schedule_class("interleaved1f1b") is ScheduleInterleaved1F1B
try:
    ScheduleInterleaved1F1B([PipelineStage(full[0], 0, 2 * n, "cpu"), PipelineStage(full[1], 1, 2 * n, "cpu")], 3)
except ValueError as error:
    assert "should have those numbered" in str(error)
else:
    raise AssertionError
"""
)


def test_layers_in_parts_and_pipelines(tmp_path):
    run_ranks(3, LAYERS, tmp_path)


CUT = (
    BEGIN
    + """
from torch.distributed.pipelining import Schedule1F1B, SplitPoint, pipe_split, pipeline

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x, skip):
        return torch.tanh(self.b(torch.relu(self.a(x)))) + (skip if x.dim() == 2 else 0)  # no trace goes in here

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.scale, self.layers, self.out = nn.Embedding(10, 6), nn.Parameter(torch.full((6,), 0.5)), nn.ModuleList([Layer() for _ in range(4)]), nn.Linear(6, 3)

    def forward(self, i):
        first = x = self.embed(i) * self.scale
        for layer in self.layers:
            x = layer(x, first)  # crosses every border
        return self.out(x)

class Marked(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        y = torch.relu(self.a(x))
        pipe_split()
        return self.b(y) + x[:, :3]

I = torch.randint(0, 10, (48,))
for model, x, spec in ((Model(), I, {"layers.2": SplitPoint.BEGINNING}), (Model(), I, {"layers.0": SplitPoint.END}), (Marked(), X, None)):
    ref = copy.deepcopy(model)
    want = ref(x)
    F.cross_entropy(want, Y).backward()
    pipe = pipeline(model, mb_args=(x[:8],), split_spec=spec)
    assert pipe.num_stages == 2 and torch.allclose(pipe(x), want)
    stage = pipe.build_stage(r, torch.device("cpu"))
    plan = Schedule1F1B(stage, 6, loss_fn=F.cross_entropy)
    out = plan.step(x) if r == 0 else plan.step(target=Y)
    assert r == 0 or torch.allclose(out, want, atol=1e-6)
    named = dict(ref.named_parameters())
    assert all(torch.allclose(p.grad, named[name].grad, atol=1e-6) for name, p in stage.submod.named_parameters())
    both = [set(dict(pipe.get_stage_module(i).named_parameters())) for i in range(2)]
    assert both[0] | both[1] == set(named) and not both[0] & both[1]
try:
    pipeline(Model(), (I[:8],), split_spec={"layers.9": SplitPoint.BEGINNING})
except ValueError as error:
    assert "layers.9" in str(error)
else:
    raise AssertionError
"""
)


def test_models_cut_into_stages(tmp_path):
    run_ranks(2, CUT, tmp_path)


DEEPSPEED = """
import copy, sys
import torch, torch.nn as nn, torch.distributed as dist, deepspeed
from deepspeed.runtime.lr_schedules import WarmupLR
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
F = nn.functional

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 17), nn.Linear(17, 3)
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(17, 17), nn.Tanh()) for _ in range(2)])

    def forward(self, x):
        x = torch.relu(self.first(x))
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x)

torch.manual_seed(7)
X, Y = torch.randn(48, 6), torch.randint(0, 3, (48,))

def weights(engine):
    found = get_model_state_dict(engine.module, options=StateDictOptions(full_state_dict=True))
    return {name: value.float().clone() for name, value in found.items()}

def train(engine, steps):
    r, n, k = dist.get_rank(), dist.get_world_size(), engine.gradient_accumulation_steps()
    for step in range(steps):
        for micro in range(k):
            loss = F.cross_entropy(engine(X[r * k + micro::n * k]).float(), Y[r * k + micro::n * k])
            engine.backward(loss)
            engine.step()

def make(stage, **more):
    torch.manual_seed(3)
    config = {"train_batch_size": 48, "gradient_accumulation_steps": 2, "gradient_clipping": 0.5, "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
              "zero_optimization": {"stage": stage}, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.001, "warmup_max_lr": 0.01, "warmup_num_steps": 5}}, **more}
    net = Net()
    engine, optimizer, loader, schedule = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=config)
    assert engine.train_micro_batch_size_per_gpu() * 2 * dist.get_world_size() == 48 and engine.zero_optimization_stage() == stage
    return engine

torch.manual_seed(3)
ref = Net()
ropt = torch.optim.AdamW(ref.parameters(), lr=0.01)
plan = WarmupLR(ropt, 0.001, 0.01, 5)
for step in range(6):
    ropt.zero_grad()
    F.cross_entropy(ref(X), Y).backward()
    norm = nn.utils.clip_grad_norm_(ref.parameters(), 0.5)
    ropt.step()
    plan.step()
for stage in (0, 1, 2, 3):
    engine = make(stage)
    train(engine, 6)
    off = max((value - ref.state_dict()[name]).abs().max().item() for name, value in weights(engine).items())
    assert off < 1e-6, (stage, off)
    assert engine.global_steps == 6 and engine.get_lr() == [group["lr"] for group in ropt.param_groups] and abs(engine.get_global_grad_norm() - norm.item()) < 1e-5, stage
    engine.save_checkpoint(sys.argv[1], tag=f"stage{stage}", client_state={"epoch": stage})
    mine, (path, client) = make((stage + 1) % 4), (None, None)
    path, client = mine.load_checkpoint(sys.argv[1])  # the last one, in another stage
    assert client == {"epoch": stage} and mine.global_steps == 6
    train(engine, 2), train(mine, 2)
    a, b = weights(engine), weights(mine)
    assert all(torch.allclose(a[name], b[name], atol=1e-6) for name in a), stage
for stage, kind in ((1, "bf16"), (2, "fp16"), (3, "bf16")):
    engine = make(stage, **{kind: {"enabled": True}})
    train(engine, 6)
    off = max((value - ref.state_dict()[name]).abs().max().item() for name, value in weights(engine).items())
    assert 0 < off < 0.03, (stage, kind, off)
with deepspeed.zero.GatheredParameters(engine.module.first.weight, modifier_rank=0):
    assert engine.module.first.weight.data.shape == (17, 6) and type(engine.module.first.weight.data) is torch.Tensor
    if dist.get_rank() == 0:
        engine.module.first.weight.data.fill_(2.)
assert weights(engine)["first.weight"].unique().tolist() == [2.]
engine.save_16bit_model(sys.argv[1])
assert torch.load(sys.argv[1] + "/pytorch_model.bin")["first.weight"].dtype == torch.bfloat16
"""


def test_deepspeed(tmp_path):
    run_ranks(2, DEEPSPEED, tmp_path, arguments=[str(tmp_path / "saved")])


# ---- Checkpoints ----
CURVE = (
    BEGIN
    + """
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
what, folder = sys.argv[1:3]
net = Net()
if what != "one":
    for layer in net.layers:
        fully_shard(layer)
    fully_shard(net)
opt = torch.optim.AdamW(net.parameters(), lr=0.01)

class App:
    epoch = 0
    def state_dict(self):
        model, optimizer = get_state_dict(net, opt)
        return {"model": model, "optim": optimizer, "epoch": self.epoch}
    def load_state_dict(self, state):
        set_state_dict(net, opt, model_state_dict=state["model"], optim_state_dict=state["optim"])
        self.epoch = state["epoch"]

app = App()
if what != "begin":
    dcp.load({"app": app}, checkpoint_id=folder)
    assert app.epoch == 4
for epoch in range(app.epoch, 8):
    if what == "begin" and epoch == 4:
        app.epoch = 4
        saved = dcp.async_save({"app": app}, checkpoint_id=folder)
    opt.zero_grad()
    loss = F.cross_entropy(net(X[r::n]), Y[r::n], reduction="sum") / 48
    (loss * n).backward()
    opt.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    if r == 0 and epoch >= 4:
        print(total.item())
if what == "begin":
    saved.result()
"""
)


def test_saved_on_four_and_resumed_on_one_two_three(tmp_path):
    """The loss goes on as it would have."""
    folder = tmp_path / "checkpoint"
    curve = [float(line) for line in run_ranks(4, CURVE, tmp_path, arguments=["begin", str(folder)])[0].split()]
    assert len(curve) == 4 and sorted(p.name for p in folder.iterdir()) == [
        ".metadata",
        *(f"__{i}_0.distcp" for i in range(4)),
    ]
    for count, what in ((1, "one"), (2, "resume"), (3, "resume")):
        again = [float(line) for line in run_ranks(count, CURVE, tmp_path, arguments=[what, str(folder)])[0].split()]
        assert again == pytest.approx(curve, abs=1e-6), count


def state(scale):
    return {
        "model": {"w": torch.arange(6.0).view(2, 3) * scale, "b": torch.ones(2, dtype=torch.bfloat16) * scale},
        "step": 3 * scale,
        "name": "text",
        "opt": {"state": {0: {"exp": torch.zeros(2, 3)}}, "param_groups": [{"lr": 0.1 * scale, "params": [0]}]},
        "list": [scale, torch.ones(3) * scale],
    }


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return all(map(same, a, b)) and len(a) == len(b) if isinstance(a, list) else a == b


def test_one_process_saves_loads_and_replaces(tmp_path):
    dcp.save(state(1), checkpoint_id=tmp_path / "a")
    got = state(0)
    kept = got["model"]["w"]
    dcp.load(got, checkpoint_id=tmp_path / "a")
    assert same(got, state(1)) and got["model"]["w"] is kept
    dcp.async_save(state(2), storage_writer=dcp.FileSystemWriter(tmp_path / "a")).result()
    dcp.load(got, storage_reader=dcp.FileSystemReader(tmp_path / "a"))
    assert same(got, state(2)) and sorted(os.listdir(tmp_path / "a")) == [".metadata", "__0_1.distcp"]
    with pytest.raises(dcp.CheckpointException, match="overwrite is False"):
        dcp.save(state(1), storage_writer=dcp.FileSystemWriter(tmp_path / "a", overwrite=False))
    dcp.format_utils.dcp_to_torch_save(tmp_path / "a", tmp_path / "one.pt")
    whole = torch.load(tmp_path / "one.pt")
    assert torch.equal(whole["model"]["w"], state(2)["model"]["w"]) and whole["opt"]["param_groups"] == [
        {"lr": 0.2, "params": [0]}
    ]
    dcp.format_utils.torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "b")
    dcp.load(got, checkpoint_id=tmp_path / "b")
    assert same(got, state(2))


def test_damaged_and_unfit_checkpoints_are_refused(tmp_path):
    dcp.save(state(1), checkpoint_id=tmp_path)
    before = state(0)
    for change, words in (
        ({"model": {"w": torch.zeros(3, 2)}}, "Size mismatch"),
        ({"model": {"other": torch.zeros(2)}}, "Missing key in checkpoint state_dict: model.other"),
    ):
        with pytest.raises(dcp.CheckpointException, match=words):
            dcp.load(change, checkpoint_id=tmp_path)
    dcp.load(
        {"model": {"other": torch.zeros(2), **before["model"]}},
        checkpoint_id=tmp_path,
        planner=dcp.DefaultLoadPlanner(allow_partial_load=True),
    )
    part = tmp_path / "__0_0.distcp"
    data = bytearray(part.read_bytes())
    at = data.index(torch.arange(6.0).numpy().tobytes())
    data[at + 5] ^= 1  # one bit of a weight
    part.write_bytes(data)
    with pytest.raises(
        dcp.CheckpointException,
        match=r"(?i)'model.w' in __0_0.distcp: '__0_0.distcp, bytes \d+ to \d+': .*(crc|checksum)",
    ):
        dcp.load(state(0), checkpoint_id=tmp_path)
    part.write_bytes(data[:at])
    with pytest.raises(dcp.CheckpointException, match="'model.w' in __0_0.distcp: .* ends after"):
        dcp.load(state(0), checkpoint_id=tmp_path)
    part.unlink()
    with pytest.raises(dcp.CheckpointException, match="'model.w' in __0_0.distcp: .*No such file"):
        dcp.load(state(0), checkpoint_id=tmp_path)
    (tmp_path / ".metadata").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(dcp.CheckpointException, match="GLOBAL os.system"):
        dcp.load(state(0), checkpoint_id=tmp_path)
    (tmp_path / ".metadata").unlink()
    with pytest.raises(dcp.CheckpointException, match="no complete checkpoint"):
        dcp.load(state(0), checkpoint_id=tmp_path)


def test_a_folder_that_pytorch_wrote():
    """tests/python/checkpoint_folder: dcp.save(state(1)) of PyTorch 2.15."""
    got = state(0)
    dcp.load(got, checkpoint_id=os.path.join(os.path.dirname(__file__), "checkpoint_folder"))
    assert same(got, state(1))


KILLED = """
import os, sys, torch, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import filesystem
write = filesystem.FileSystemWriter.write_metadata
if sys.argv[2] == "die":
    filesystem.FileSystemWriter.write_metadata = lambda self, metadata: os._exit(9)
dcp.save({"w": torch.full((3,), float(sys.argv[3]))}, checkpoint_id=sys.argv[1])
"""


def test_a_save_that_dies_leaves_the_last_one_whole(tmp_path):
    script, folder = tmp_path / "s.py", tmp_path / "c"
    script.write_text(KILLED)
    for how, value, status in (("live", 1, 0), ("die", 2, 9), ("die", 3, 9)):
        assert (
            subprocess.run(
                [sys.executable, "-m", "taper", "run", str(script), str(folder), how, str(value)], timeout=60
            ).returncode
            == status
        )
    got = {"w": torch.zeros(3)}
    dcp.load(got, checkpoint_id=folder)
    assert got["w"].tolist() == [1.0] * 3
    subprocess.run(
        [sys.executable, "-m", "taper", "run", str(script), str(folder), "live", "4"], check=True, timeout=60
    )
    dcp.load(got, checkpoint_id=folder)
    assert got["w"].tolist() == [4.0] * 3 and len(list(folder.iterdir())) == 2
