"""fully_shard over tensor parallel layers."""

from dtensor_begin import R, S0, S1, X, close, r, short
import itertools
import torch
from torch.distributed.tensor import distribute_tensor, init_device_mesh

import copy
import sys
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 6)) for _ in range(2)])
        self.last = nn.Linear(6, 3)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x)


def sharded(net):
    for layer in net.layers:
        parallelize_module(layer, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(layer, mesh=mesh["dp"])
    parallelize_module(net, mesh["tp"], {"last": ColwiseParallel(output_layouts=R)})
    return fully_shard(net, mesh=mesh["dp"])


torch.manual_seed(4)
whole, X = Net(), torch.randn(8, 6)
net = sharded(copy.deepcopy(whole))
placed = {name: short(p.placements) for name, p in net.named_parameters()}
assert placed["layers.0.0.weight"] == "_S0, 2 S0", placed
assert placed["layers.0.2.weight"] == "S0 S1", placed
assert placed["layers.0.2.bias"] == "S0 R", placed
assert placed["last.bias"] == "_S0, 2 S0", placed
assert net.layers[0][0].weight.device_mesh == mesh
assert net.layers[0][0].weight.to_local().shape == (3 - r // 2, 6)
assert net.layers[0][0].weight.shape == (10, 6)
ref, mine = torch.optim.AdamW(whole.parameters(), lr=0.05), torch.optim.AdamW(net.parameters(), lr=0.05)


def train(steps):
    part = X[mesh.get_local_rank("dp") * 4 :][:4]
    for _ in range(steps):
        norms = []
        for model, optimizer, x in ((whole, ref, X), (net, mine, part)):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5))
            optimizer.step()
        close(norms[1].full_tensor(), norms[0], "norm")


def same():
    state = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True))
    for name, value in whole.state_dict().items():
        close(state[name], value, name)


train(4)
same()
# A checkpoint of it goes on in another of its kind, and one process's model can read it.
state = dict(zip(("model", "optim"), get_state_dict(net, mine)))
dcp.save(state, checkpoint_id=sys.argv[1])
net = sharded(Net())
mine = torch.optim.AdamW(net.parameters(), lr=0.05)
state = dict(zip(("model", "optim"), get_state_dict(net, mine)))
dcp.load(state, checkpoint_id=sys.argv[1])
set_state_dict(net, mine, model_state_dict=state["model"], optim_state_dict=state["optim"])
plain = {"model": Net().state_dict()}
dcp.load(plain, checkpoint_id=sys.argv[1])
for name, value in whole.state_dict().items():
    close(plain["model"][name], value, name)
train(3)
same()
# Parts that were cut inside out: to any other placement, element by element, and through operators that need them
# whole.
p = net.layers[1][0].weight
close((p * 2 + p).full_tensor(), p.full_tensor() * 3, "element by element")
assert (p * 2).placements == p.placements
close(
    (p @ torch.distributed.tensor.distribute_tensor(torch.ones(6, 2), mesh, [R, R])).full_tensor(),
    p.full_tensor().sum(1, keepdim=True).expand(10, 2),
    "product",
)
for a, b in itertools.product((S0, S1, R), repeat=2):
    assert torch.equal(
        p.detach().redistribute(placements=[a, b]).to_local(),
        distribute_tensor(p.detach().full_tensor(), mesh, [a, b]).to_local(),
    ), (a, b)
