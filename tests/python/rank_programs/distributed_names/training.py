"""Hooks of communication, and averagers."""

from distributed_names_begin import F, W, fails, n, r
import copy
import torch
import torch.distributed as dist
import torch.nn as nn

from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
    PowerSGDState,
    batched_powerSGD_hook,
    powerSGD_hook,
)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer

torch.manual_seed(1)
X, Y = torch.randn(64, 20), torch.randn(64, 12)
WIDE = nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 12))


def train(model, steps, optimizer=None, lr=0.05):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.mse_loss(model(X[r::n]), Y[r::n])
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return F.mse_loss(model(X), Y).item()


def spread(model):
    # How far ranks are from each other.
    flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    every = [torch.empty_like(flat) for _ in range(n)]
    dist.all_gather(every, flat)
    return max((one - every[0]).abs().max().item() for one in every)


plain = train(DDP(copy.deepcopy(WIDE)), 60)
start = F.mse_loss(WIDE(X), Y).item()
for hook, rank in ((powerSGD_hook, 1), (powerSGD_hook, 4), (batched_powerSGD_hook, 2)):
    state, model = PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=3), DDP(copy.deepcopy(WIDE))
    model.register_comm_hook(state, hook)
    loss = train(model, 60)
    rate, before, after = state.compression_stats()
    assert spread(model) == 0, (
        hook,
        rank,
        loss,
        plain,
        start,
        rate,
    )
    assert state.iter == 60, (
        hook,
        rank,
        loss,
        plain,
        start,
        rate,
    )
    assert rate > 2, (
        hook,
        rank,
        loss,
        plain,
        start,
        rate,
    )
    assert loss < start - 0.6 * (start - plain), (
        hook,
        rank,
        loss,
        plain,
        start,
        rate,
    )
# A gradient of rank one travels without loss, and full rank gives the plain average.
model, ref = DDP(nn.Linear(20, 12, bias=False)), DDP(nn.Linear(20, 12, bias=False))
ref.load_state_dict(model.state_dict())
model.register_comm_hook(PowerSGDState(W, 12, start_powerSGD_iter=2, min_compression_rate=0), powerSGD_hook)
train(model, 5), train(ref, 5)
assert torch.allclose(model.module.weight, ref.module.weight, atol=1e-5)
fails(ValueError, "start_powerSGD_iter", lambda: PowerSGDState(None, start_powerSGD_iter=1))
model = DDP(copy.deepcopy(WIDE))
register_ddp_comm_hook(DDPCommHookType.BF16_COMPRESS, model)
assert abs(train(model, 60) - plain) < 0.02
assert model._get_ddp_logging_data()["comm_hook"] == "bf16_compress_hook"
model = DDP(copy.deepcopy(WIDE))
register_ddp_comm_hook(DDPCommHookType.NOOP, model)
train(model, 3)
assert spread(model) > 0

# Each rank by itself after two iterations, averaged in every second one after that.
model = DDP(copy.deepcopy(WIDE))
alone, _ = dist.new_subgroups(1)
model.register_comm_hook(PostLocalSGDState(None, alone, 2), post_localSGD_hook)
optimizer = PostLocalSGDOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.05), PeriodicModelAverager(period=2, warmup_steps=2)
)
spreads = []
for _ in range(6):
    train(model, 1, optimizer)
    spreads.append(spread(model) > 1e-7)
assert spreads == [False, False, False, True, False, True], spreads
state = optimizer.state_dict()
assert state["step"] == 6
optimizer.averager.step = 0
optimizer.load_state_dict(state)
assert optimizer.averager.step == 6
averager, p = HierarchicalModelAverager({2: 1, 4: n}), nn.Parameter(torch.full((2,), float(r)))
p.grad = torch.zeros(2)
seen = []
for _ in range(3):
    averager.average_parameters([p])
    seen.append(p[0].item())
assert seen[0] == (n - 1) / 2

# replicate: the module stays itself.
from torch.distributed._composable.replicate import replicate

torch.manual_seed(r)
net = nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 12))
same = replicate(net)
assert same is net
assert isinstance(net, nn.Sequential)
assert list(net.state_dict())[0] == "0.weight"
assert spread(net) == 0
ref = DDP(copy.deepcopy(nn.Sequential(*net)))
assert abs(train(net, 10) - train(ref, 10)) < 1e-6
assert spread(net) == 0
net.set_requires_gradient_sync(False)
train(net, 1)
assert spread(net) > 0

told = ref._get_ddp_logging_data()
assert told["world_size"] == n
assert told["rank"] == r
assert told["module_name"] == "Sequential"
assert told["num_parameter_tensors"] == 4
assert told["backend_name"] == "gloo"
assert told["bucket_sizes"] == str(4 * (20 * 40 + 40 + 40 * 12 + 12))
assert told["dtypes"] == "float32"
