"""Random numbers of Python, NumPy and the package."""

import random

import numpy as np
import taper as torch
from taper import nn
from state.base import nothing, source


def drawn(read, name):
    def made():
        return read, nothing

    made.__name__ = name
    return source(made)


for name, read in {
    "random.random": lambda: random.random(),
    "random.choice": lambda: random.choice([1.0, 2.0, 3.0]),
    "random.uniform": lambda: random.uniform(1, 2),
    "random.gauss": lambda: random.gauss(0, 1),
    "random.shuffle": lambda: (lambda a: random.shuffle(a) or a[0])(list(range(9))),
    "random.sample": lambda: sum(random.sample(range(99), 3)),
    "random.getrandbits": lambda: random.getrandbits(8),
    "np.rand": lambda: np.random.rand(),
    "np.beta": lambda: np.random.beta(1.0, 1.0),
    "np.randint": lambda: np.random.randint(100),
    "np.choice": lambda: float(np.random.choice([1, 2, 3, 4, 5])),
    "np.normal": lambda: np.random.normal(),
    "np.permutation": lambda: float(np.random.permutation(50)[0]),
    "np.rand_array": lambda: float(np.random.rand(3).sum()),
    "torch.rand": lambda: torch.rand(1),
    "torch.randn_like": lambda: torch.randn_like(torch.ones(1)),
    "torch.dropout": lambda: nn.functional.dropout(torch.ones(8), 0.5).sum(),
    "torch.randperm": lambda: torch.randperm(50)[0] * 1.0,
    "torch.bernoulli": lambda: torch.bernoulli(torch.full((9,), 0.5)).sum(),
    "torch.rand_item": lambda: torch.rand(1).item(),
    "torch.manual_seed": lambda: (torch.manual_seed(3), torch.rand(1))[1],
    "torch.seed_and_random": lambda: (torch.manual_seed(random.randrange(50)), torch.rand(1))[1],
    "torch.initial_seed": lambda: torch.initial_seed() % 97,
    "torch.rng_state": lambda: float(torch.get_rng_state().sum()) + torch.rand(1),
}.items():
    drawn(read, name)


@source
def seeds_from_outside():
    k = [3]

    def change():
        k[0] += 1
        torch.manual_seed(k[0])
        random.seed(k[0])
        np.random.seed(k[0])

    return lambda: torch.rand(1), change


@source
def forked_generator():
    def read():
        with torch.random.fork_rng():
            torch.manual_seed(3)
            h = torch.rand(1)
        return h + torch.rand(1)

    return read, nothing


@source
def state_of_the_generator():
    def read():
        before = torch.get_rng_state()
        h = torch.rand(1)
        torch.set_rng_state(before)
        return h + torch.rand(1)

    return read, nothing


@source
def own_generator():
    g = torch.Generator().manual_seed(5)
    return lambda: torch.rand(1, generator=g), nothing


@source
def own_generator_seeded():
    g = torch.Generator().manual_seed(5)
    return lambda: torch.rand(1, generator=g.manual_seed(7)) + g.initial_seed(), nothing


@source
def own_generator_inside():
    return lambda: torch.rand(1, generator=torch.Generator().manual_seed(7)), nothing


@source
def numpy_generator():
    r = np.random.default_rng(0)
    return lambda: r.random(), nothing


@source
def numpy_generator_method():
    draw = np.random.RandomState(3).rand
    return lambda: draw(), nothing


@source
def python_generator():
    r = random.Random(5)
    return lambda: r.random() + r.randint(1, 5), nothing


@source
def mapped_draws():
    draw = random.Random(5).random
    return lambda: sum(map(lambda f: f(), [draw, draw])) + sum(f() for f in (draw,)), nothing


@source
def draws_by_c():
    draw = random.Random(5).getrandbits
    return lambda: sum(map(draw, [4, 4])) + max([1, 2], key=draw), nothing
