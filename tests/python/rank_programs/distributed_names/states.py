"""States of sharded models."""

from distributed_names_begin import fails, r
import sys
import torch
import torch.distributed as dist
import torch.nn as nn

from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
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
assert list(state) == (["0.weight", "0.bias", "2.weight", "2.bias"] if r == 0 else [])
assert list(moments) == (["state", "param_groups"] if r == 0 else [])
assert list(get_model_state_dict(model, submodules={model[0]})) == ["0.weight", "0.bias"]
assert list(
    get_model_state_dict(model, submodules={model[2]}, options=StateDictOptions(keep_submodule_prefixes=False))
) == ["weight", "bias"]
# The wrapper's older ways: a whole state that rank 0 has, to the optimisers of all ranks.
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

first, second = (FSDP(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))) for _ in range(2))
optimizers = [torch.optim.Adam(one.parameters(), lr=0.1) for one in (first, second)]
first(torch.ones(3, 4)).sum().backward()
optimizers[0].step()
saved = FSDP.full_optim_state_dict(first, optimizers[0])
optimizers[1].load_state_dict(FSDP.scatter_full_optim_state_dict(saved if r == 0 else None, second))
again = FSDP.full_optim_state_dict(second, optimizers[1])
assert all(
    torch.equal(saved["state"][name][key], again["state"][name][key])
    for name in saved["state"]
    for key in ("exp_avg", "exp_avg_sq")
)
assert again["param_groups"][0]["lr"] == 0.1
# By numbers and by names again, and from a folder that says itself what it holds.
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.format_utils import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.optimizer import load_sharded_optimizer_state_dict
from torch.distributed.fsdp import OptimStateKeyType

numbered = FSDP.rekey_optim_state_dict(saved, OptimStateKeyType.PARAM_ID, first)
assert sorted(numbered["state"]) == [0, 1, 2, 3]
assert numbered["param_groups"][0]["params"] == [0, 1, 2, 3]
named = FSDP.rekey_optim_state_dict(numbered, OptimStateKeyType.PARAM_NAME, first)
assert named["state"].keys() == saved["state"].keys()
assert FSDP.rekey_optim_state_dict(named, OptimStateKeyType.PARAM_NAME, first) is named
import os

folder = sys.argv[1]
dcp.save({"optimizer": saved, "step": 3, "model": {"w": torch.arange(3.0)}}, checkpoint_id=folder)
everything, model_alone = {}, {}
dcp.load(everything, checkpoint_id=folder, planner=_EmptyStateDictLoadPlanner())
dcp.load(model_alone, checkpoint_id=folder, planner=_EmptyStateDictLoadPlanner(keys={"model"}))
assert everything["step"] == 3
assert model_alone.keys() == {"model"}
assert model_alone["model"]["w"].tolist() == [0.0, 1.0, 2.0]
loaded = load_sharded_optimizer_state_dict({}, "optimizer", dcp.FileSystemReader(folder))
assert loaded.keys() == {"optimizer"}
assert torch.equal(loaded["optimizer"]["state"]["0.weight"]["exp_avg"], saved["state"]["0.weight"]["exp_avg"])
# Every rank starts from rank 1's values.
from torch.distributed.utils import _sync_module_states

net_of_rank = nn.Linear(2, 2).requires_grad_(False)
net_of_rank.weight.fill_(float(r)), net_of_rank.bias.fill_(float(r))
_sync_module_states(net_of_rank, dist.group.WORLD, 1 << 20, 1, {"bias"})
assert net_of_rank.weight.unique().tolist() == [1.0]
assert net_of_rank.bias.unique().tolist() == [float(r)]
assert len(dist.distributed_c10d._pg_map) >= 1
assert dist.group.WORLD in dist.distributed_c10d._pg_map
fails(
    ValueError,
    "full_state_dict must be True",
    lambda: get_model_state_dict(model, options=StateDictOptions(broadcast_from_rank0=True)),
)
other, second = net(2)
given = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
set_model_state_dict(other, state, options=given)
set_optimizer_state_dict(other, second, moments, options=given)
assert all(torch.equal(a.full_tensor(), b.full_tensor()) for a, b in zip(model.parameters(), other.parameters()))
a, b = (
    get_optimizer_state_dict(*both, options=StateDictOptions(full_state_dict=True))
    for both in ((model, optimizer), (other, second))
)
assert all(torch.equal(a["state"][name]["exp_avg"], b["state"][name]["exp_avg"]) for name in a["state"])
assert a["state"]["0.bias"]["exp_avg"].abs().sum() > 0
