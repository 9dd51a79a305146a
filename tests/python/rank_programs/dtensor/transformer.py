"""A transformer over both dimensions of a mesh."""

from dtensor_begin import F, R, S1, close
import torch
from torch.distributed.tensor import Shard, init_device_mesh

import contextlib
import copy
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8, bias=False) for _ in range(4))

    def forward(self, x):
        heads = [layer(x).view(*x.shape[:2], -1, 2).transpose(1, 2) for layer in (self.q, self.k, self.v)]
        return self.o(F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(*x.shape[:2], -1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.up, self.down, self.first, self.second = (
            Attention(),
            nn.Linear(8, 16),
            nn.Linear(16, 8),
            nn.LayerNorm(8),
            nn.LayerNorm(8),
        )

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.down(F.silu(self.up(self.second(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.blocks, self.norm, self.output = (
            nn.Embedding(16, 8),
            nn.ModuleList([Block() for _ in range(2)]),
            nn.LayerNorm(8),
            nn.Linear(8, 16, bias=False),
        )

    def forward(self, i):
        x = self.embed(i)
        for block in self.blocks:
            x = block(x)
        return self.output(self.norm(x))


COLUMNS = {name: ColwiseParallel() for name in ("attention.q", "attention.k", "attention.v")}
PLAIN = {**COLUMNS, "attention.o": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
SEQUENCE = {
    **COLUMNS,
    "attention.o": RowwiseParallel(output_layouts=S1),
    "up": ColwiseParallel(input_layouts=S1),
    "down": RowwiseParallel(output_layouts=S1),
    "first": SequenceParallel(),
    "second": SequenceParallel(),
    "attention": PrepareModuleInput(input_layouts=(S1,), desired_input_layouts=(R,)),
}
for plan, cut_loss in ((PLAIN, False), (SEQUENCE, False), (SEQUENCE, True)):
    torch.manual_seed(0)
    model = Model()
    whole = copy.deepcopy(model)
    if plan is SEQUENCE:
        parallelize_module(
            model,
            mesh["tp"],
            {
                "embed": RowwiseParallel(input_layouts=R, output_layouts=S1),
                "norm": SequenceParallel(),
                "output": ColwiseParallel(
                    input_layouts=S1, output_layouts=Shard(-1) if cut_loss else R, use_local_output=not cut_loss
                ),
            },
        )
    for block in model.blocks:
        fully_shard(parallelize_module(block, mesh["tp"], plan), mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    I = torch.randint(0, 16, (4, 6))
    part = I[mesh.get_local_rank("dp") * 2 :][:2]
    steps = [(one, torch.optim.AdamW(one.parameters(), lr=0.01), i) for one, i in ((model, part), (whole, I))]
    for _ in range(3):
        for one, optimizer, i in steps:
            optimizer.zero_grad()
            with loss_parallel() if cut_loss else contextlib.nullcontext():
                F.cross_entropy(one(i).flatten(0, 1), i.flatten()).backward()
            optimizer.step()
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    for name, value in whole.state_dict().items():
        close(state[name], value, (cut_loss, name))
