"""DeepSpeed's stages."""

import copy
import sys
import torch
import torch.nn as nn
import torch.distributed as dist
import deepspeed
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
            loss = F.cross_entropy(engine(X[r * k + micro :: n * k]).float(), Y[r * k + micro :: n * k])
            engine.backward(loss)
            engine.step()


def make(stage, **more):
    torch.manual_seed(3)
    config = {
        "train_batch_size": 48,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 0.5,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
        "zero_optimization": {"stage": stage},
        "scheduler": {
            "type": "WarmupLR",
            "params": {"warmup_min_lr": 0.001, "warmup_max_lr": 0.01, "warmup_num_steps": 5},
        },
        **more,
    }
    net = Net()
    engine, optimizer, loader, schedule = deepspeed.initialize(
        model=net, model_parameters=net.parameters(), config=config
    )
    assert engine.train_micro_batch_size_per_gpu() * 2 * dist.get_world_size() == 48
    assert engine.zero_optimization_stage() == stage
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
    assert engine.global_steps == 6, stage
    assert engine.get_lr() == [group["lr"] for group in ropt.param_groups], stage
    assert abs(engine.get_global_grad_norm() - norm.item()) < 1e-5, stage
    engine.save_checkpoint(sys.argv[1], tag=f"stage{stage}", client_state={"epoch": stage})
    mine, (path, client) = make((stage + 1) % 4), (None, None)
    path, client = mine.load_checkpoint(sys.argv[1])  # the last one, in another stage
    assert client == {"epoch": stage}
    assert mine.global_steps == 6
    train(engine, 2), train(mine, 2)
    a, b = weights(engine), weights(mine)
    assert all(torch.allclose(a[name], b[name], atol=1e-6) for name in a), stage
for stage, kind in ((1, "bf16"), (2, "fp16"), (3, "bf16")):
    engine = make(stage, **{kind: {"enabled": True}})
    train(engine, 6)
    off = max((value - ref.state_dict()[name]).abs().max().item() for name, value in weights(engine).items())
    assert 0 < off < 0.03, (stage, kind, off)
with deepspeed.zero.GatheredParameters(engine.module.first.weight, modifier_rank=0):
    assert engine.module.first.weight.data.shape == (17, 6)
    assert type(engine.module.first.weight.data) is torch.Tensor
    if dist.get_rank() == 0:
        engine.module.first.weight.data.fill_(2.0)
assert weights(engine)["first.weight"].unique().tolist() == [2.0]
engine.save_16bit_model(sys.argv[1])
assert torch.load(sys.argv[1] + "/pytorch_model.bin")["first.weight"].dtype == torch.bfloat16
