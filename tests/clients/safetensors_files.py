"""safetensors: a model's weights to a file and back, tied weights included."""

import os
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load_file, load_model, save_file, save_model
from show import show
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 10, bias=False))
net[1].weight = net[0].weight
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "net.safetensors")
    save_model(net, path)
    other = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 10, bias=False))
    other[1].weight = other[0].weight
    missing, unexpected = load_model(other, path)
    save_file(
        {"half": net[0].weight.detach().half(), "long": torch.arange(3), "flags": torch.tensor([True, False])},
        path,
        metadata={"format": "pt"},
    )
    loaded = load_file(path)
    with safe_open(path, "pt") as file:
        part = file.get_slice("half")[2:4]
        names = len(list(file.keys()))
show(
    same=torch.equal(net[0].weight, other[1].weight),
    missing=len(missing) + len(unexpected),
    half=loaded["half"].float(),
    long=loaded["long"],
    flags=loaded["flags"],
    part=part.float(),
    names=names,
)
