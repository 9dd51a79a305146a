"""huggingface_hub: a module that saves and loads itself, and a state dict split over files."""

import os
import tempfile

import torch
from huggingface_hub import (
    PyTorchModelHubMixin,
    load_torch_model,
    save_torch_model,
    save_torch_state_dict,
    split_torch_state_dict_into_shards,
)
from show import show


class Net(torch.nn.Module, PyTorchModelHubMixin):
    def __init__(self, width=8, depth=2):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(depth))
        self.tied = self.layers[0]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x


torch.manual_seed(0)
net, x = Net(width=6, depth=3), torch.ones(2, 6)
plan = split_torch_state_dict_into_shards(net.state_dict(), max_shard_size=200)
with tempfile.TemporaryDirectory() as folder:
    net.save_pretrained(folder)
    again = Net.from_pretrained(folder)
    alone = os.path.join(folder, "alone")
    os.mkdir(alone)
    save_torch_state_dict(net.state_dict(), alone, max_shard_size=200)
    files = len([name for name in os.listdir(alone) if name.endswith(".safetensors")])
    os.mkdir(os.path.join(folder, "two"))
    save_torch_model(net, os.path.join(folder, "two"), max_shard_size="1KB")
    loaded = Net(width=6, depth=3)
    load_torch_model(loaded, os.path.join(folder, "two"))
show(
    out=net(x),
    again=(again(x) - net(x)).abs().max(),
    loaded=(loaded(x) - net(x)).abs().max(),
    files=files,
    shards=len(plan.filename_to_tensors),
    depth=len(again.layers),
    bytes=plan.metadata["total_size"],
)
