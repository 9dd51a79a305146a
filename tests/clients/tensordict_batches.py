"""tensordict: nested tensors as one, modules on them, a file in memory."""

import tempfile

import torch
from show import show
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential

torch.manual_seed(0)
data = TensorDict({"x": torch.randn(4, 3), "inner": {"y": torch.arange(4.0).unsqueeze(-1)}}, batch_size=[4])
net = TensorDictSequential(
    TensorDictModule(torch.nn.Linear(3, 2), in_keys=["x"], out_keys=["hidden"]),
    TensorDictModule(torch.nn.Tanh(), in_keys=["hidden"], out_keys=["out"]),
)
out = net(data)
stacked = torch.stack([data, data.clone()], 0)
with tempfile.TemporaryDirectory() as folder:
    kept = data.detach().memmap(folder)
    loaded = TensorDict.load_memmap(folder)["inner", "y"].clone()
moved = data.apply(lambda t: t * 2)
show(
    out=out["out"],
    shape=list(stacked.shape),
    part=data[1:3]["inner", "y"],
    loaded=loaded,
    doubled=moved["inner", "y"],
    flat=len(data.flatten_keys().keys()),
)
