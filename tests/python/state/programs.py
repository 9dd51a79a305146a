"""Programs made of the sources: a seed decides which, how they are put together, with which arguments the program is
called and when its state changes. A program runs as it is and compiled, from the same beginning, and gives the same at
every call."""

import random
import warnings

import taper as torch
from state.base import PLAIN, SOURCES, reset
from taper import nn

CALLS = 5


class Forward(nn.Module):
    def __init__(self, reads):
        super().__init__()
        self.reads, self.layer = reads, nn.Linear(2, 2)
        for p in self.layer.parameters():
            nn.init.constant_(p, 0.25)

    def forward(self, x):
        y = self.layer(x)
        for read in self.reads:
            y = torch.tanh(y) * read() + x
        return y


class Caller:
    def __init__(self, reads):
        self.reads, self.seen = reads, 0

    def __call__(self, x):
        return torch.stack([x * read() for read in self.reads]).sum(0)

    def method(self, x):
        return self(x) + len(self.reads)


# ---- How a program is put together: each takes what reads and gives a function of a tensor ----
def summed(reads):
    def program(x):
        for read in reads:
            x = x * read() + 1
        return x

    return program


def by_lambda(reads):
    first = reads[0]
    return lambda x: torch.sin(x) * first() + sum(read() for read in reads[1:])


def with_branches(reads):
    def program(x):
        total = 0.0
        for i, read in enumerate(reads):
            value = read()
            total = total + value if i % 2 else total - value * 2
        return x.relu() + total, {"twice": x * total, "and": [total * x, None]}

    return program


def in_a_comprehension(reads):
    return lambda x: torch.cat([x * each for each in [read() for read in reads]])


def decorated(reads):
    def twice(function):
        def around(x):
            return function(x) + function(x)

        return around

    @twice
    def program(x):
        return x * sum(read() for read in reads)

    return program


def under_no_grad(reads):
    def program(x):
        with torch.no_grad():
            y = x * 2
        return y + sum(read() for read in reads) * x

    return program


def recursive(reads):
    def program(x, i=0):
        return x if i == len(reads) else program(x * reads[i]() + 1, i + 1)

    return program


def with_a_backward(reads):
    def program(x):
        w = torch.ones(2, requires_grad=True)
        y = (w * x.detach()).sum()
        for read in reads:
            y = y * read()
        (gradient,) = torch.autograd.grad(y.sum(), w)
        return gradient

    return program


def nested(reads):
    inner = torch.compile(lambda x: x * reads[0]())
    return lambda x: inner(x) + sum(read() for read in reads)


SHAPES = {
    "summed": summed,
    "by_lambda": by_lambda,
    "with_branches": with_branches,
    "in_a_comprehension": in_a_comprehension,
    "decorated": decorated,
    "under_no_grad": under_no_grad,
    "recursive": recursive,
    "with_a_backward": with_a_backward,
    "module": Forward,
    "object": Caller,
    "method": lambda reads: Caller(reads).method,
    "nested": nested,
}


def plan(seed):
    """(names of sources, shape, order of changes, kind of arguments): what the seed stands for."""
    draw = random.Random(seed)
    pool = sorted(PLAIN) if draw.random() < 0.4 else sorted(SOURCES)
    names = [draw.choice(pool) for _ in range(draw.choice([1, 1, 2, 2, 3]))]
    changes = [[i for i in range(len(names)) if draw.random() < 0.6] for _ in range(CALLS)]
    return names, draw.choice(sorted(SHAPES)), changes, draw.choice(["same", "same", "new", "grad", "shapes"])


def flat(value):
    """What a program gave as plain numbers."""
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), tuple(value.shape), value.requires_grad, value.detach().flatten().tolist()]
    if isinstance(value, dict):
        return {key: flat(each) for key, each in value.items()}
    return [flat(each) for each in value] if isinstance(value, (list, tuple)) else value


def run(what, compiled):
    """(what each call gave, graphs, reasons of warnings) of a program."""
    names, shape, changes, arguments = what
    reset()
    made = [SOURCES[name]() for name in names]
    program = SHAPES[shape]([read for read, _ in made])
    called = torch.compile(program) if compiled else program
    given, x = [], torch.tensor([0.5, 2.0])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for i in range(CALLS):
            x = {
                "same": x,
                "new": x + 0.25,
                "grad": x.detach().clone().requires_grad_(i % 2 == 1),
                "shapes": torch.ones(2 + i % 2 * (shape not in ("module", "with_a_backward"))),
            }[arguments]
            for step in [lambda: given.append(flat(called(x))), *(made[k][1] for k in changes[i])]:
                try:
                    step()
                except Exception as error:  # both sides raise the same
                    given.append(type(error).__name__ + str(error)[:60])
    graphs = getattr(called, "_captured", called).count if compiled else 0
    reset()
    return given, graphs, [str(each.message) for each in told if "torch.compile runs" in str(each.message)]


def is_plain(what):
    return all(name in PLAIN for name in what[0])
