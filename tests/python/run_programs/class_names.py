"""Classes and functions say that they are of PyTorch's modules, are found there, and survive a pickle."""

import inspect
import pickle
import sys

import torch
import torch.distributed.autograd as loaded_by_its_name
from torch import nn, optim

SHOWN = {
    nn.Linear: "torch.nn.modules.linear.Linear",
    nn.Parameter: "torch.nn.parameter.Parameter",
    optim.SGD: "torch.optim.sgd.SGD",
    optim.lr_scheduler.CyclicLR: "torch.optim.lr_scheduler.CyclicLR",  # from a private file
    torch.distributions.Normal: "torch.distributions.normal.Normal",  # from a module without a file
    torch.utils.data.DataLoader: "torch.utils.data.dataloader.DataLoader",
    torch.autocast: "torch.amp.autocast_mode.autocast",
}


class Own(nn.Linear):
    pass


if __name__ == "__main__":
    for kind, name in SHOWN.items():
        assert repr(kind) == f"<class '{name}'>", kind
        assert getattr(sys.modules[kind.__module__], kind.__name__) is kind
        assert pickle.loads(pickle.dumps(kind)) is kind
    assert sys.modules["torch.distributed.autograd"] is loaded_by_its_name
    assert pickle.loads(pickle.dumps(loaded_by_its_name.backward)) is loaded_by_its_name.backward
    taken = {}
    exec("from torch import *", taken)
    assert {"autocast", "save", "vmap", "device", "tensor"} <= taken.keys() and "nn" not in taken
    assert "cdist" in torch.functional.__all__ and not hasattr(nn.functional, "__all__")
    assert nn.functional.relu6.__module__ == "torch.nn.functional"
    assert Own.__module__ == "__main__"
    assert "class Linear" in inspect.getsource(nn.Linear)
    step = torch.compile(lambda x: nn.functional.relu(x) + 1)
    assert step(torch.ones(2)).tolist() == [2, 2]
    tracer = type(
        "T", (torch.fx.Tracer,), {"is_leaf_module": lambda self, m, name: m.__module__.startswith("torch.nn")}
    )
    graph = tracer().trace(nn.Sequential(nn.Linear(1, 1), nn.ReLU()))
    assert [node.op for node in graph.nodes] == ["placeholder", "call_module", "call_module", "output"]
    print("fine")
