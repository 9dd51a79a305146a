"""Layers in parts, and pipelines."""

from sharding_begin import F, X, Y, n, r
import copy
import torch
import torch.nn as nn

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)
from torch.distributed.pipelining.schedules import get_schedule_class
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.up, self.down = (
            nn.Embedding(10, 6),
            nn.LayerNorm(6),
            nn.Linear(6, 8 * n + 1),
            nn.Linear(8 * n + 1, 6),
        )

    def forward(self, i):
        x = self.embed(i)
        return x + self.down(torch.relu(self.up(self.norm(x))))


mesh = init_device_mesh("cpu", (n,))
I = torch.randint(0, 10, (4, 6))
plans = [
    {"embed": RowwiseParallel(input_layouts=Replicate()), "up": ColwiseParallel(), "down": RowwiseParallel()},
    {
        "embed": ColwiseParallel(output_layouts=Replicate()),
        "up": ColwiseParallel(output_layouts=Replicate()),
        "down": RowwiseParallel(input_layouts=Replicate()),
    },
    {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
    },
]
for number, plan in enumerate(plans):
    torch.manual_seed(5)
    block = Block()
    ref = copy.deepcopy(block)
    parallelize_module(block, mesh, plan)
    y, z = block(I), ref(I)
    if number == 2:  # each rank has some of the positions
        start, count = Shard(1).part(6, n, r)
        assert torch.allclose(y, z[:, start : start + count], atol=1e-6)
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
        assert all(
            torch.allclose(p.grad, q.grad, atol=1e-6) for p, q in zip(stage.submod.parameters(), ref[r].parameters())
        )
        assert r != n - 1 or len(losses) == 6 and torch.allclose(out, ref(X), atol=1e-6)
order = [what[0] for what, _ in Schedule1F1B(PipelineStage(full[r], r, n, "cpu"), 6)._order(6)]
assert "".join(order) == {0: "fffbfbfbfbbb", 1: "ffbfbfbfbfbb", 2: "fbfbfbfbfbfb"}[r], order

# Two stages on each rank.
full = nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(2 * n - 1)], nn.Linear(6, 3))
ref = copy.deepcopy(full)
F.cross_entropy(ref(X), Y).backward()
for schedule, parts in (
    (ScheduleInterleaved1F1B, 6),
    (ScheduleInterleaved1F1B, 4),
    (ScheduleInterleaved1F1B, 1),
    (ScheduleLoopedBFS, 4),
):
    stages = [PipelineStage(copy.deepcopy(full)[i], i, 2 * n, torch.device("cpu")) for i in (r, r + n)]
    plan = schedule(stages, n_microbatches=parts, loss_fn=F.cross_entropy)
    for step in range(2):
        for stage in stages:
            stage.submod.zero_grad()
        losses = []
        out = plan.step(X) if r == 0 else plan.step(target=Y, losses=losses) if r == n - 1 else plan.step()
        for stage in stages:
            assert all(
                torch.allclose(p.grad, q.grad, atol=1e-6)
                for p, q in zip(stage.submod.parameters(), ref[stage.stage_index].parameters())
            )
        assert r != n - 1 or len(losses) == parts and torch.allclose(out, ref(X), atol=1e-6)
    out = plan.eval(X) if r == 0 else plan.eval()
    assert r != n - 1 or torch.allclose(out, ref(X), atol=1e-6)
order = "".join(f"{what[0]}{stage}{part} " for what, stage, part in ScheduleInterleaved1F1B(stages, 3)._plan(3))
assert order == {
    2: "f00 f01 f02 f10 b10 f11 b11 f12 b12 b00 b01 b02 ",
    1: "f00 f01 f02 f10 f11 f12 b10 b11 b12 b00 b01 b02 ",
}.get(r, order), order
assert get_schedule_class("interleaved1f1b") is ScheduleInterleaved1F1B
try:
    ScheduleInterleaved1F1B([PipelineStage(full[0], 0, 2 * n, "cpu"), PipelineStage(full[1], 1, 2 * n, "cpu")], 3)
except ValueError as error:
    assert "should have those numbered" in str(error)
else:
    raise AssertionError
