"""What scripts use of torch.distributed beside its collectives: functional collectives, communication hooks, averagers, stores' queues, replicate, the launcher's
interface, DDP's data, and DeepSpeed's whole weights."""

import subprocess
import sys

from ranks import run_ranks

BEGIN = """
import copy, warnings
import torch, torch.nn as nn, torch.distributed as dist
F = nn.functional
dist.init_process_group("gloo")
r, n = dist.get_rank(), dist.get_world_size()
W = dist.group.WORLD

def fails(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
"""

COLLECTIVES = (
    BEGIN
    + """
import torch.distributed._functional_collectives as fc
from torch.distributed.device_mesh import init_device_mesh
x = torch.arange(4.) + 10 * r
for group in (W, [0, 1], [[0, 1]], W.group_name, init_device_mesh("cpu", (2,)), (init_device_mesh("cpu", (2,)), 0)):
    assert fc.wait_tensor(fc.all_reduce(x, "sum", group)).tolist() == [10, 12, 14, 16]
assert fc.all_reduce(x, "avg", W).tolist() == [5, 6, 7, 8] and fc.all_reduce(x, dist.ReduceOp.MAX, W).tolist() == [10, 11, 12, 13]
assert fc.all_gather_tensor(x.view(2, 2), 1, W).tolist() == [[0, 1, 10, 11], [2, 3, 12, 13]]
assert fc.reduce_scatter_tensor(x, "sum", 0, W).tolist() == [10 + 4 * r, 12 + 4 * r]
assert fc.reduce_scatter_tensor(x.view(2, 2), "sum", 1, W).tolist() == [[10 + 2 * r], [14 + 2 * r]]
assert fc.all_to_all_single(x, [1, 1] if r == 0 else [3, 3], [1, 3], W).tolist() == ([0, 10] if r == 0 else [1, 2, 3, 11, 12, 13])
assert fc.broadcast(x, 1, W).tolist() == [10, 11, 12, 13] and fc.permute_tensor(x, [1, 0], W).tolist() == [10 - 10 * r + i for i in range(4)]
y = x.clone()
fc.all_reduce_inplace(y)
assert y.tolist() == [10, 12, 14, 16] and [t.tolist() for t in fc.all_reduce_coalesced([x, x], "sum", W)] == [[10, 12, 14, 16]] * 2

def grad(call):
    t = x.clone().requires_grad_()
    y = call(t)
    (y * torch.arange(1., y.numel() + 1).view(y.shape) * (r + 1)).sum().backward()
    return t.grad.tolist()

# As PyTorch 2.15 gives them.
assert grad(lambda t: fc.all_reduce(t, "sum", W)) == [3, 6, 9, 12] and grad(lambda t: fc.all_reduce(t, "avg", W)) == [1.5, 3, 4.5, 6]
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
assert len(set(got)) == 2 and store.queue_len("work") == 1
dist.barrier()
if r == 0:
    assert store.queue_pop("work") in (b"a", b"b", b"c")
    fails(dist.QueueEmptyError, "queue is empty", lambda: store.queue_pop("work", block=False))
assert store.compare_set("k", "", "1") == b"1" and store.multi_get(["k"]) == [b"1"]
"""
)


def test_functional_collectives_and_queues(tmp_path):
    run_ranks(2, COLLECTIVES, tmp_path)


TRAINING = (
    BEGIN
    + """
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, batched_powerSGD_hook, powerSGD_hook
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
    assert spread(model) == 0 and state.iter == 60 and rate > 2 and loss < start - 0.6 * (start - plain), (hook, rank, loss, plain, start, rate)
# A gradient of rank one travels without loss, and full rank gives the plain average.
model, ref = DDP(nn.Linear(20, 12, bias=False)), DDP(nn.Linear(20, 12, bias=False))
ref.load_state_dict(model.state_dict())
model.register_comm_hook(PowerSGDState(W, 12, start_powerSGD_iter=2, min_compression_rate=0), powerSGD_hook)
train(model, 5), train(ref, 5)
assert torch.allclose(model.module.weight, ref.module.weight, atol=1e-5)
fails(ValueError, "start_powerSGD_iter", lambda: PowerSGDState(None, start_powerSGD_iter=1))
model = DDP(copy.deepcopy(WIDE))
register_ddp_comm_hook(DDPCommHookType.BF16_COMPRESS, model)
assert abs(train(model, 60) - plain) < 0.02 and model._get_ddp_logging_data()["comm_hook"] == "bf16_compress_hook"
model = DDP(copy.deepcopy(WIDE))
register_ddp_comm_hook(DDPCommHookType.NOOP, model)
train(model, 3)
assert spread(model) > 0

# Each rank by itself after two iterations, averaged in every second one after that.
model = DDP(copy.deepcopy(WIDE))
alone, _ = dist.new_subgroups(1)
model.register_comm_hook(PostLocalSGDState(None, alone, 2), post_localSGD_hook)
optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.05), PeriodicModelAverager(period=2, warmup_steps=2))
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
assert same is net and isinstance(net, nn.Sequential) and list(net.state_dict())[0] == "0.weight" and spread(net) == 0
ref = DDP(copy.deepcopy(nn.Sequential(*net)))
assert abs(train(net, 10) - train(ref, 10)) < 1e-6 and spread(net) == 0
net.set_requires_gradient_sync(False)
train(net, 1)
assert spread(net) > 0

told = ref._get_ddp_logging_data()
assert told["world_size"] == n and told["rank"] == r and told["module_name"] == "Sequential" and told["num_parameter_tensors"] == 4 and told["backend_name"] == "gloo"
assert told["bucket_sizes"] == str(4 * (20 * 40 + 40 + 40 * 12 + 12)) and told["dtypes"] == "float32"
"""
)


def test_hooks_and_averagers(tmp_path):
    run_ranks(2, TRAINING, tmp_path)


WRAPPED = """
import torch, torch.nn as nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import ActivationWrapper, CheckpointImpl, CheckpointWrapper, apply_activation_checkpointing, checkpoint_wrapper, offload_wrapper
calls = []

class Layer(nn.Linear):
    def forward(self, x):
        calls.append(1)
        return torch.tanh(super().forward(x))

net = nn.Sequential(*[Layer(4, 4) for _ in range(3)])
x = torch.randn(2, 4)
net(x).sum().backward()
want, names = [p.grad.clone() for p in net.parameters()], list(net.state_dict())
for wrap in (lambda m: checkpoint_wrapper(m, CheckpointImpl.REENTRANT), checkpoint_wrapper, offload_wrapper):
    net.zero_grad()
    calls.clear()
    wrapped = nn.Sequential(*[wrap(layer) for layer in net])
    assert isinstance(wrapped[0], ActivationWrapper) and wrapped[0].in_features == 4 and list(wrapped.state_dict()) == names
    wrapped(x.clone().requires_grad_()).sum().backward()
    assert all(torch.allclose(p.grad, g) for p, g in zip(net.parameters(), want)) and len(calls) == (3 if wrap is offload_wrapper else 6)
    wrapped.load_state_dict(net.state_dict())
apply_activation_checkpointing(net, check_fn=lambda m: isinstance(m, Layer))
assert all(isinstance(layer, CheckpointWrapper) for layer in net)
"""


def test_activation_wrappers(tmp_path):
    run_ranks(1, WRAPPED, tmp_path)


LAUNCH = """
import os, sys
import torch, torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, record
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

def work(factor, folder):
    dist.init_process_group("gloo")
    t = torch.tensor([float(dist.get_rank() + 1)]) * factor
    dist.all_reduce(t)
    dist.destroy_process_group()
    if folder and not os.path.exists(folder + "/failed") and os.environ["RANK"] == "1":
        open(folder + "/failed", "w").close()
        raise ValueError("the first time")
    return t.item(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])

def always_fails():
    raise ValueError("told by the rank")

if __name__ == "__main__":
    config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, rdzv_backend="c10d", max_restarts=1)
    assert elastic_launch(config, work)(2.0, "") == {0: (6.0, 0), 1: (6.0, 0)}
    assert elastic_launch(config, work)(3.0, sys.argv[1]) == {0: (9.0, 1), 1: (9.0, 1)}
    assert elastic_launch(config, "true")() == {0: None, 1: None}
    config.max_restarts = 0
    try:
        elastic_launch(config, always_fails)()
    except ChildFailedError as error:
        assert error.name == "always_fails" and "told by the rank" in str(error)
    else:
        raise AssertionError
    from torch.distributed import run
    arguments = ["--nproc-per-node", "2", "--no-python", "true"]
    run.run(run.parse_args(arguments))
    arguments[-1] = "false"
    try:
        run.run(run.parse_args(arguments))
    except ChildFailedError:
        print("fine")
"""


def test_launching_from_a_program(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(LAUNCH)
    done = subprocess.run(
        [sys.executable, "-m", "taper", "run", str(script), str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "fine" in done.stdout, done.stdout + done.stderr


ZERO = (
    BEGIN
    + """
import sys, deepspeed
from deepspeed.utils.zero_to_fp32 import convert_zero_checkpoint_to_fp32_state_dict, get_fp32_state_dict_from_zero_checkpoint, load_state_dict_from_zero_checkpoint

def net():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))

for stage, bits in ((1, True), (3, True), (2, False)):
    config = {"train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "zero_optimization": {"stage": stage}, "bf16": {"enabled": bits}}
    engine, _, _, _ = deepspeed.initialize(model=net(), config=config)
    for i in range(3):
        loss = engine(torch.randn(4, 5).to(torch.bfloat16 if bits else torch.float32)).float().square().mean()
        engine.backward(loss)
        engine.step()
    folder = f"{sys.argv[1]}/stage{stage}"
    engine.save_checkpoint(folder)
    if r == 0:
        state = get_fp32_state_dict_from_zero_checkpoint(folder)
        assert list(state) == list(net().state_dict()) and all(t.dtype == torch.float32 and t.device.type == "cpu" for t in state.values())
        whole = load_state_dict_from_zero_checkpoint(net(), folder)
        assert all(torch.equal(a, state[name]) for name, a in whole.state_dict().items())
        assert any(not torch.equal(a, net().state_dict()[name]) for name, a in state.items())
        if bits:  # float32 copies, not what the model computes with
            assert any(not torch.equal(a, a.bfloat16().float()) for a in state.values())
        convert_zero_checkpoint_to_fp32_state_dict(folder, folder + "/whole.bin")
        assert list(torch.load(folder + "/whole.bin")) == list(state)
        fails(ValueError, "Unable to find 'latest'", lambda: get_fp32_state_dict_from_zero_checkpoint(sys.argv[1]))
    dist.barrier()
"""
)


def test_whole_weights_of_a_zero_checkpoint(tmp_path):
    run_ranks(2, ZERO, tmp_path, arguments=[str(tmp_path)])


def test_elastic_samplers():
    from taper.distributed.elastic.utils.data import CyclingIterator, ElasticDistributedSampler

    parts = [ElasticDistributedSampler(range(20), 2, rank, start_index=5) for rank in range(2)]
    assert [len(list(part)) for part in parts] == [8, 8] and sorted(set([*parts[0], *parts[1]])) == list(range(5, 20))
    assert list(CyclingIterator(3, lambda epoch: iter([epoch] * 2), 1)) == [1, 1, 2, 2]


STATES = (
    BEGIN
    + """
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_optimizer_state_dict, set_model_state_dict, set_optimizer_state_dict
from torch.distributed.fsdp import fully_shard

def net(seed):
    torch.manual_seed(seed)
    model = fully_shard(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)))
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)

model, optimizer = net(1)
model(torch.ones(3, 4)).sum().backward()
optimizer.step()
whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
state, moments = get_model_state_dict(model, options=whole), get_optimizer_state_dict(model, optimizer, options=whole)
assert list(state) == (["0.weight", "0.bias", "2.weight", "2.bias"] if r == 0 else []) and list(moments) == (["state", "param_groups"] if r == 0 else [])
assert list(get_model_state_dict(model, submodules={model[0]})) == ["0.weight", "0.bias"]
assert list(get_model_state_dict(model, submodules={model[2]}, options=StateDictOptions(keep_submodule_prefixes=False))) == ["weight", "bias"]
# The wrapper's older ways: a whole state that rank 0 has, to the optimisers of all ranks.
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
first, second = (FSDP(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))) for _ in range(2))
optimizers = [torch.optim.Adam(one.parameters(), lr=0.1) for one in (first, second)]
first(torch.ones(3, 4)).sum().backward()
optimizers[0].step()
saved = FSDP.full_optim_state_dict(first, optimizers[0])
optimizers[1].load_state_dict(FSDP.scatter_full_optim_state_dict(saved if r == 0 else None, second))
again = FSDP.full_optim_state_dict(second, optimizers[1])
assert all(torch.equal(saved["state"][name][key], again["state"][name][key]) for name in saved["state"] for key in ("exp_avg", "exp_avg_sq"))
assert again["param_groups"][0]["lr"] == 0.1
# By numbers and by names again, and from a folder that says itself what it holds.
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.format_utils import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.optimizer import load_sharded_optimizer_state_dict
from torch.distributed.fsdp import OptimStateKeyType
numbered = FSDP.rekey_optim_state_dict(saved, OptimStateKeyType.PARAM_ID, first)
assert sorted(numbered["state"]) == [0, 1, 2, 3] and numbered["param_groups"][0]["params"] == [0, 1, 2, 3]
named = FSDP.rekey_optim_state_dict(numbered, OptimStateKeyType.PARAM_NAME, first)
assert named["state"].keys() == saved["state"].keys() and FSDP.rekey_optim_state_dict(named, OptimStateKeyType.PARAM_NAME, first) is named
import os
folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "folder")
dcp.save({"optimizer": saved, "step": 3, "model": {"w": torch.arange(3.0)}}, checkpoint_id=folder)
everything, model_alone = {}, {}
dcp.load(everything, checkpoint_id=folder, planner=_EmptyStateDictLoadPlanner())
dcp.load(model_alone, checkpoint_id=folder, planner=_EmptyStateDictLoadPlanner(keys={"model"}))
assert everything["step"] == 3 and model_alone.keys() == {"model"} and model_alone["model"]["w"].tolist() == [0.0, 1.0, 2.0]
loaded = load_sharded_optimizer_state_dict({}, "optimizer", dcp.FileSystemReader(folder))
assert loaded.keys() == {"optimizer"} and torch.equal(loaded["optimizer"]["state"]["0.weight"]["exp_avg"], saved["state"]["0.weight"]["exp_avg"])
# Every rank starts from rank 1's values.
from torch.distributed.utils import _sync_module_states
net_of_rank = nn.Linear(2, 2).requires_grad_(False)
net_of_rank.weight.fill_(float(r)), net_of_rank.bias.fill_(float(r))
_sync_module_states(net_of_rank, dist.group.WORLD, 1 << 20, 1, {"bias"})
assert net_of_rank.weight.unique().tolist() == [1.0] and net_of_rank.bias.unique().tolist() == [float(r)]
assert len(dist.distributed_c10d._pg_map) >= 1 and dist.group.WORLD in dist.distributed_c10d._pg_map
fails(ValueError, "full_state_dict must be True", lambda: get_model_state_dict(model, options=StateDictOptions(broadcast_from_rank0=True)))
other, second = net(2)
given = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
set_model_state_dict(other, state, options=given)
set_optimizer_state_dict(other, second, moments, options=given)
assert all(torch.equal(a.full_tensor(), b.full_tensor()) for a, b in zip(model.parameters(), other.parameters()))
a, b = (get_optimizer_state_dict(*both, options=StateDictOptions(full_state_dict=True)) for both in ((model, optimizer), (other, second)))
assert all(torch.equal(a["state"][name]["exp_avg"], b["state"][name]["exp_avg"]) for name in a["state"]) and a["state"]["0.bias"]["exp_avg"].abs().sum() > 0
"""
)


def test_states_of_sharded_models(tmp_path):
    run_ranks(2, STATES, tmp_path)
