"""FullyShardedDataParallel and fully_shard."""

from sharding_begin import F, Net, X, Y, apart, n, r
import copy
import torch
import torch.nn as nn

import functools
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.fsdp import (
    FullyShardedDataParallel as FSDP,
    FSDPModule,
    MixedPrecisionPolicy,
    ShardingStrategy,
    StateDictType,
    fully_shard,
)
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
        assert fully_shard(net) is net
        assert isinstance(net, FSDPModule)
        assert isinstance(net, Net)
        return net
    policy = {
        "FULL_SHARD": ModuleWrapPolicy({nn.Sequential}),
        "SHARD_GRAD_OP": functools.partial(size_based_auto_wrap_policy, min_num_params=200),
        "NO_SHARD": functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.Sequential}),
    }[kind]
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
    assert len(units) > 3
    assert all(
        one.whole.untyped_storage().nbytes() == 0 for unit in units for one in unit.params
    )  # at rest nothing is whole
    if kind != "fully_shard":
        plain = model.state_dict()
        assert type(plain["first.weight"]) is torch.Tensor
        assert list(plain) == list(ref.state_dict())
        assert [name for name, _ in model.named_parameters()] == list(ref.state_dict())
        with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
            assert hasattr(model.state_dict()["first.weight"], "to_local")
        with FSDP.summon_full_params(model):
            assert net.first.weight.shape == (17, 6)
            assert torch.allclose(net.first.weight, ref.first.weight, atol=1e-6)
            with torch.no_grad():
                net.first.bias.fill_(4.0)
        assert model.state_dict()["first.bias"].tolist() == [4.0] * 17
        model.load_state_dict(ref.state_dict())
        assert apart(model.state_dict(), ref) == 0
    else:  # a state of one process, into a model in parts
        ms, os_ = get_state_dict(model, opt)
        assert hasattr(os_["state"]["first.weight"]["exp_avg"], "to_local")
        set_state_dict(
            model, opt, model_state_dict=ref.state_dict(), optim_state_dict=copy.deepcopy(get_state_dict(ref, ropt)[1])
        )
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
fully_shard(
    net,
    mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32),
)
y = net(X[r::n])
assert y.dtype == torch.float32
y.sum().backward()
assert all(p.dtype == torch.float32 and p.grad.dtype == torch.float32 for p in net.parameters())
with torch.no_grad():
    assert net(X).shape == (48, 3)
