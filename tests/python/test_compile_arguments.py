"""torch.compile and its arguments: a graph is for arguments of the kind that it saw, the same objects where the program
may ask for that, and apart in memory where it writes."""

import collections
import enum
import warnings

import numpy as np
import pytest
import taper as torch
from taper import nn


class Box:
    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x * self.k


class Own(torch.Tensor):
    pass


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


Pair = collections.namedtuple("Pair", "a b")
T = torch.tensor
KEPT, BOX, ARRAY, SET, LIST = torch.ones(2), Box(1.0), np.ones(2), {1}, [torch.ones(2)]
TABLE, HASHES = {KEPT: 5.0}, {hash(KEPT): 5.0}
LAYERS = [nn.Linear(1, 1) for _ in range(4)]


def doubles_last(values):
    values.append(values[0] * 2)
    return values[-1]


def replaces_first(values):
    values[0] = values[0] * 2
    return values[0] + 1


def sets_key(table):
    table["b"] = table["a"] * 3
    return table["b"]


def sets_attribute(x):
    x.k = 5
    return x * 2


def adds_in_place(a, b):
    a.add_(1)
    return a * 2 + b


def writes_what_is_read(a, b):
    c = a * 2
    b.mul_(3)
    return c + a + b


def adds_to_argument(a):
    a.add_(1)
    return a * KEPT.sum()


def box_with(i):
    BOX.k = float(i)
    return BOX


def array_with(i):
    ARRAY[0] = i
    return ARRAY


def set_with(i):
    SET.add(i + 5)
    return SET


def with_attribute(i):
    x = T([1.0])
    if i:
        x.k = i
    return x


def with_gradient(i):
    x = torch.ones(2, requires_grad=True)
    x.grad = torch.full((2,), float(i)) if i % 2 else None
    return x


def history(i):
    x = T([1.0], requires_grad=True)
    return x if i % 2 else x * 1


def overlapping(i):
    x = torch.arange(4.0)
    return (x[:3], x[1:]) if i % 2 else (torch.arange(3.0), torch.arange(3.0))


def one_list_or_two(i):
    values = [KEPT]
    return values, values if i % 2 else [KEPT]


def one_or_two(i):
    x = torch.ones(2)
    return x, x if i % 2 else torch.ones(2)


# name: (the function, the arguments of call i, whether it is to run as graphs)
CASES = {
    "a list grows": (doubles_last, lambda i: ([T([1.0 + i])],), False),
    "a list's item is replaced": (replaces_first, lambda i: ([T([1.0 + i])],), False),
    "a dict gets a key": (sets_key, lambda i: ({"a": T([1.0 + i])},), False),
    "an object's attribute": (lambda x, b: x * b.k, lambda i: (T([2.0]), box_with(i)), True),
    "new objects": (lambda x, b: x * b.k, lambda i: (T([2.0]), Box(i)), True),
    "an array": (lambda x, a: x * a[0], lambda i: (T([1.0]), array_with(i)), False),
    "new arrays": (
        lambda x, a: x * torch.from_numpy(a),
        lambda i: (T([1.0]), np.full(1, i + 1, dtype=np.float32)),
        False,
    ),
    "an array's number": (lambda x, a: x * float(a), lambda i: (T([1.0]), np.float64(i)), True),
    "something called": (lambda x, f: f(x) + 1, lambda i: (T([1.0]), box_with(i)), True),
    "new functions": (lambda x, f: f(x) + 1, lambda i: (T([1.0]), lambda x: x * i), True),
    "generators": (lambda x, g: x * sum(g), lambda i: (T([1.0]), (k for k in range(i))), False),
    "ranges": (lambda x, r: x * sum(r), lambda i: (T([1.0]), range(i)), True),
    "a set": (lambda x, s: x * sum(s), lambda i: (T([1.0]), set_with(i)), True),
    "an attribute of a tensor": (lambda x: x * getattr(x, "k", 1), lambda i: (with_attribute(i),), None),
    "an attribute is set": (sets_attribute, lambda i: (T([1.0]),), False),
    "requires_grad": (
        lambda x: x * 2 if x.requires_grad else x * 3,
        lambda i: (T([1.0], requires_grad=i % 2 == 1),),
        True,
    ),
    "is_leaf": (lambda x: x * 2 if x.is_leaf else x * 3, lambda i: (history(i),), False),
    "grad_fn": (lambda x: x * 2 if x.grad_fn is None else x * 3, lambda i: (history(i),), False),
    "grad": (lambda x: x * 2 if x.grad is None else x * x.grad, lambda i: (with_gradient(i),), True),
    "in place": (adds_in_place, lambda i: (torch.ones(4)[:2], torch.ones(2)), True),
    "in place on one": (adds_in_place, one_or_two, None),
    "in place on views": (writes_what_is_read, overlapping, None),
    "in place on the program's": (adds_to_argument, lambda i: (KEPT[:2] if i == 2 else torch.ones(2),), None),
    "first the program's": (lambda x: x + KEPT, lambda i: (torch.ones(2) * 5 if i else KEPT[:2],), None),
    "a subclass": (
        lambda x: x * 2 if type(x) is torch.Tensor else x * 3,
        lambda i: (torch.ones(2) if i % 2 else torch.ones(2).as_subclass(Own),),
        None,
    ),
    "a parameter": (
        lambda x: x * 2 if isinstance(x, nn.Parameter) else x * 3,
        lambda i: (nn.Parameter(torch.ones(2)) if i % 2 else torch.ones(2, requires_grad=True),),
        True,
    ),
    "contiguous": (
        lambda x: x * 2 if x.is_contiguous() else x * 3,
        lambda i: (torch.ones(2, 2) if i % 2 else torch.ones(2, 2).t()[:, :1],),
        True,
    ),
    "an offset": (lambda x: x * x.storage_offset(), lambda i: (torch.ones(9)[i : i + 2],), False),
    "a view": (
        lambda x: x * 2 if x._is_view() else x * 3,
        lambda i: (torch.ones(9)[:2] if i % 2 else torch.ones(2),),
        False,
    ),
    "a base": (
        lambda x: x * 2 if x._base is None else x * 3,
        lambda i: (torch.ones(9)[:2] if i % 2 else torch.ones(2),),
        False,
    ),
    "the same memory": (
        lambda x: x * 2 if x.is_set_to(KEPT) else x * 3,
        lambda i: (KEPT.detach() if i % 2 else torch.ones(2),),
        False,
    ),
    "the same tensor": (lambda x: x * 2 if x is KEPT else x * 3, lambda i: (KEPT if i % 2 else torch.ones(2),), True),
    "one of a list": (
        lambda x: x * 2 if any(x is each for each in LIST) else x * 3,
        lambda i: (LIST[0] if i % 2 else torch.ones(2),),
        True,
    ),
    "a key": (lambda x: x * TABLE.get(x, 1.0), lambda i: (KEPT if i % 2 else torch.ones(2),), True),
    "a hash": (lambda x: x * HASHES.get(hash(x), 1.0), lambda i: (KEPT if i % 2 else torch.ones(2),), False),
    "an identity": (
        lambda x: x * (2 if id(x) == id(KEPT) else 3),
        lambda i: (KEPT if i % 2 else torch.ones(2),),
        False,
    ),
    "one twice": (lambda a, b: a * 2 if a is b else a * 3, one_or_two, True),
    "a list twice": (lambda a, b: a[0] * 2 if a is b else a[0] * 3, one_list_or_two, True),
    "the program's list": (
        lambda a: a[0] * 2 if a is LIST else a[0] * 3,
        lambda i: (LIST if i % 2 else list(LIST),),
        True,
    ),
    "its own list": (lambda x: (x, LIST), lambda i: (T([1.0]),), False),
    "the list it was given": (lambda values: values, lambda i: ([T([1.0])],), False),
    "int or float": (
        lambda x, k: x * k if isinstance(k, int) else x - k,
        lambda i: (T([2.0]), 1 if i % 2 else 1.0),
        True,
    ),
    "1 or True": (lambda x, k: x * 5 if k is True else x - k, lambda i: (T([2.0]), 1 if i % 2 else True), True),
    "zeros": (lambda x, k: x * 0 + 1 / T(k), lambda i: (T([2.0]), 0.0 if i % 2 else -0.0), True),
    "complex": (lambda x, k: x * k.imag, lambda i: (T([2.0]), complex(1, i)), True),
    "texts": (lambda x, k: x * len(k), lambda i: (T([2.0]), "a" * i), True),
    "levels": (
        lambda x, k: x * 5 if k is Level.LOW else x - k,
        lambda i: (T([2.0]), Level.LOW if i % 2 else Level.HIGH),
        True,
    ),
    "named tuples": (lambda p: p.a * p.b, lambda i: (Pair(T([2.0]), i),), True),
    "slices": (lambda s: KEPT[s], lambda i: (slice(0, 1 + i % 2),), True),
    "modules": (lambda m, x: m(x), lambda i: (LAYERS[i % 4], T([1.0])), True),
}


def plain(value):
    if isinstance(value, torch.Tensor):
        return type(value).__name__, value.requires_grad, value.detach().as_subclass(torch.Tensor).tolist()
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def run(function, arguments, grad):
    """What five calls gave, and what they left in their arguments."""
    KEPT.fill_(1)
    SET.clear()
    given = []
    with torch.set_grad_enabled(grad):
        for i in range(5):
            args = arguments(i)
            given.append(
                (plain(function(*args)), [plain(each) for each in args if isinstance(each, (torch.Tensor, list))])
            )
    return given


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_arguments(name, grad):
    function, arguments, graphs = CASES[name]
    compiled = torch.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(compiled, arguments, grad) == run(function, arguments, grad)
    assert graphs is None or (compiled.count > 0) == graphs
