"""What torch.fx records of functions: names, operators, methods, attributes, constants, wrapped functions, and what it
refuses."""

import math
from collections import namedtuple
from math import sqrt
from typing import Dict, List, Optional

import torch
import torch.nn as nn
from torch import fx

Pair = namedtuple("Pair", "a b")


@fx.wrap
def leaf(x, y):
    return x + y


fx.wrap("len")
fx.wrap("sqrt")


def show(function, **options):
    print("--", getattr(function, "__name__", type(function).__name__))
    try:
        traced = fx.symbolic_trace(function, **options)
    except Exception as error:
        print(type(error).__name__, error)
        return
    print(traced.graph)
    print(traced.code)


def wrapped(x):
    return leaf(x, 2) + len(x) + sqrt(x) + math.floor(x)


def stars(x: torch.Tensor, *args, **kw) -> torch.Tensor:
    return x + args[0] + kw["a"]


def annotated(x: List[int], y: Optional[torch.Tensor] = None, z: Dict[str, int] = {}):
    a, b = x
    return a + b


def branch(x):
    return x if x.sum() > 0 else x * 2


def loop(x):
    return [row for row in x]


def spread(x):
    return x.view(*x.shape)


def returns_a_function(x):
    return leaf


def contains(x):
    return 3 in x


def to_int(x):
    return int(x)


def backwards(x):
    return reversed(x)


def item(x):
    x[0] = 1
    return x


def constants(x):
    t = torch.ones(2)
    return (
        torch.zeros(3) - x,
        t * x,
        t / x,
        t[x],
        t @ x,
        t == x,
        t**x,
        t // x,
        t % x,
        t < x,
        t & x,
        t.add_(x),
        t + x,
        torch.add(x, other=t),
    )


def containers(x):
    return (
        Pair(x, 2),
        {"a": x, "b": [x, (x,)]},
        slice(x, None, 2),
        range(3),
        torch.Size([1, 2]),
        None,
        "text",
        float("inf"),
    )


def flags(x, flag=True, n=2):
    return x * n if flag else x


def names(sum, device, torch_1, class_, x_1):
    return sum.sum() + device.device + x_1.x() + torch_1.abs().abs().relu_1().relu_1().relu()


def attributes(x):
    x.HelloWorld()
    x.helloABCWorld()
    return (
        x.keys(),
        x.a.b.c(1).d,
        x.size()[0],
        x.shape[-1],
        x.is_cuda,
        hasattr(x, "foo"),
        x.float().type(torch.float16),
        x.to(device=torch.device("cpu")),
    )


def operators(x, y):
    z = (x + 1 - y) * 2 / 3 // 4 % 5 @ y**2
    z = 1 - (2 + z) * 3 / (4 / z) ** (2**z) // (5 // z) % (7 % z)
    z = (z << 1 >> 2) & 3 | y ^ 4
    z += 1
    return -z, +z, ~z, abs(z), z == 1, z != 1, z < 1, z > 1, z <= 1, z >= 1, z[:, 1:, ..., None], z[0], 3 & z, 2 @ z


def nothing():
    return torch.ones(2)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.Conv2dBN = nn.ReLU()
        self.l0 = nn.ReLU()
        self.layers = nn.ModuleList([nn.ReLU(), nn.ReLU()])
        self.act = nn.ReLU()

    def forward(self, x):
        x = self.layers[1](self.layers[0](self.layers[0](x)))
        return self.Conv2dBN(self.l0(self.act(self.act(self.act(x)))))


for function in (
    wrapped,
    stars,
    annotated,
    branch,
    loop,
    spread,
    returns_a_function,
    contains,
    to_int,
    backwards,
    item,
    constants,
    containers,
    names,
    attributes,
    operators,
    nothing,
    lambda x: x + 1,
    Layers(),
):
    show(function)
show(flags, concrete_args={"flag": False})
show(flags, concrete_args={"flag": True, "n": 3})
