"""Weights in two places, unused ones, and meshes of two dimensions."""

from sharding_begin import F, apart, n, r
import copy
import sys
import torch
import torch.nn as nn

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
from torch.utils.checkpoint import checkpoint

whole = StateDictOptions(full_state_dict=True)


class Tied(
    nn.Module
):  # one weight in two places, a frozen one, one that only the first rank uses, and one that nobody does
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
assert mesh["shard"].size() == 2
assert mesh["shard"].get_local_rank() == r % 2
assert mesh.get_local_rank("replicate") == r // 2
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
        assert net.none.weight.grad is None
        assert net.some.weight.grad is not None
        assert net.frozen.weight.grad is None
        opt.step(), ropt.step()
    state = get_model_state_dict(net, options=whole)
    assert apart(state, ref) < 1e-6, (options, apart(state, ref))
    dcp.save({"net": get_model_state_dict(net)}, checkpoint_id=sys.argv[1])
    got = {"net": {name: torch.zeros_like(value) for name, value in ref.state_dict().items()}}
    dcp.load(got, checkpoint_id=sys.argv[1])
    assert apart(got["net"], ref) < 1e-6
