"""Graphs as what their files hold, plain lists and numbers: to make one for other sizes from a few that were captured,
and to say what is in one.

Sizes are symbols with values. A graph is captured for each set of symbols with those one larger, and once more with all
of them larger, which must come out as the others say: every number that differs is a sum of multiples of products of
symbols (their squares too, where it takes those), and everything else is the same. Then a graph for any sizes is the
document with those numbers put in."""

import os
import re
import tempfile
from itertools import product

import taper
import taper._C as _C


def read(graph):
    """The document of a graph."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph")
        _C._graph_save(graph, path, "")
        return taper.load(path)


def write(document, path):
    taper.save(document, path)


def graph_of(document, *tensors_of):
    """The document's graph; with another graph that has the same values, the tensors are that one's."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph")
        write(document, path)
        return _C._graph_load(path, *tensors_of)[0]


def current(document, graph):
    """The document a graph was loaded from, with the tensors that the graph has now. (A document read from the graph
    itself may have its steps in another order, to which rules of sizes do not apply.)"""
    made = {**document, "values": list(document["values"])}
    for i, tensor in _C._graph_tensors(graph):
        made["values"][i] = [*made["values"][i][:3], tensor.detach()]
    return made


_OUTSIDE, _CONSTANT = 2, 3  # kinds of values
_DEVICE_TYPES = {"cuda": 2, "xpu": 3, "hip": 4}  # by their numbers in files


def placed(document, where):
    """The document of a graph that runs on another device."""
    place = taper.device(where)
    made = {key: value for key, value in document.items() if key != "device"}
    if place.type in _DEVICE_TYPES:
        made["device"] = [_DEVICE_TYPES[place.type], place.index or 0]
    return made


def _equal(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and bool(((a == b) | (a != a) & (b != b)).all())


def _differences(base, other, path, found):
    """{path: (number there, number here)} of everything but tensors; False where the forms differ."""
    if isinstance(base, taper.Tensor) or isinstance(other, taper.Tensor):
        return (
            isinstance(base, taper.Tensor)
            and isinstance(other, taper.Tensor)
            and base.shape == other.shape
            and base.dtype == other.dtype
        )
    if type(base) is not type(other):
        return False
    if isinstance(base, dict):
        return base.keys() == other.keys() and all(
            _differences(base[key], other[key], path + (key,), found) for key in base
        )
    if (
        len(path) == 2
        and path[0] == "values"
        and base[0][0] == other[0][0] == _CONSTANT
        and not _equal(base[3], other[3])
    ):
        return False  # one that was made from a size
    if isinstance(base, (list, tuple)):
        return len(base) == len(other) and all(
            _differences(a, b, path + (i,), found) for i, (a, b) in enumerate(zip(base, other))
        )
    if base != other and type(base) is int and path[0] in ("values", "steps", "result"):
        found[path] = other - base
        return True
    return base == other or base != base and other != other


def _value(by, change):
    """What a number gains: by has a factor for each product of symbols."""
    total = 0
    for symbols, factor in by.items():
        for symbol in symbols.split("*"):
            factor *= change[symbol]
        total += factor
    return int(total)


def _coefficients(values, degree):
    """{exponents: factor} of the polynomial that has these values, {point: value} over the grid of 0 ... degree for
    each symbol: along one symbol after the other."""
    for axis in range(len(next(iter(values)))):
        made = {}
        for point, value in values.items():
            if point[axis]:
                continue
            line = [values[point[:axis] + (n,) + point[axis + 1 :]] for n in range(degree + 1)]
            square = (line[2] - 2 * line[1] + line[0]) / 2 if degree == 2 else 0
            for n, factor in enumerate((line[0], line[1] - line[0] - square, square)[: degree + 1]):
                made[point[:axis] + (n,) + point[axis + 1 :]] = factor
        values = made
    return {exponents: factor for exponents, factor in values.items() if factor}


def _fitted(at, symbols, degree):
    """{path: {"symbol*symbol": factor}} by the documents of the grid; None where their forms differ."""
    grid = list(product(range(degree + 1), repeat=len(symbols)))
    found = {point: {} for point in grid}
    base = at(dict.fromkeys(symbols, 0))
    for point in grid[1:]:
        if not _differences(base, at(dict(zip(symbols, point))), (), found[point]):
            return None
    fitted = {}
    for path in set().union(*found.values()):
        factors = _coefficients({point: found[point].get(path, 0) for point in grid}, degree)
        fitted[path] = {
            "*".join(name for name, n in zip(symbols, exponents) for _ in range(n)): factor
            for exponents, factor in factors.items()
        }
    return fitted


def rules(at, steps):
    """[[path, {"symbol*symbol": factor}]], from the documents at(by), where each symbol is larger by by[symbol]: first
    as if every number followed products of different symbols, then with their squares. at(steps) must come out as the
    others say. None: the graph does not follow the sizes so."""
    kept = {}

    def once(by):
        key = tuple(by.values())
        if key not in kept:
            kept[key] = at(by)
        return kept[key]

    for degree in (1, 2):
        factors, found = _fitted(once, list(steps), degree), {}
        if factors is None or not _differences(once(dict.fromkeys(steps, 0)), once(steps), (), found):
            return None
        expected = {path: _value(by, steps) for path, by in factors.items()}
        if found == {path: n for path, n in expected.items() if n}:
            return [[list(path), by] for path, by in factors.items()]
    return None


def sizes(symbols, places, rules):
    """How a graph follows its sizes, as files have it (src/io/graph/sizes.c)."""
    number = {name: i for i, name in enumerate(symbols)}
    return {
        "symbols": [[name, *about] for name, about in symbols.items()],
        "places": [[None if place is None else [number[place[0]], *place[1:]] for place in dims] for dims in places],
        "rules": [
            [path, [[factor, [number[symbol] for symbol in product.split("*")]] for product, factor in by.items()]]
            for path, by in rules
        ],
    }


def resized(base, rules, change):
    """What is at the rules' paths for sizes that differ from the base's by change[symbol]."""

    def copied(o):
        return (
            {key: copied(value) for key, value in o.items()}
            if isinstance(o, dict)
            else [copied(value) for value in o]
            if isinstance(o, (list, tuple))
            else o
        )

    made = copied(base)
    for path, by in rules:
        at = made
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] += _value(by, change)
    return made


# ---- What is in a graph, for people and programs that look through its nodes ----


class _Kernel:
    """A step that no function of the package's stands for."""

    def __init__(self, name):
        self.__name__ = self.__qualname__ = self._name = name or "copy"
        self.__module__ = "taper"

    def __call__(self, *args, **kwargs):
        raise RuntimeError(f"{self._name} is a step of graphs alone")

    def __repr__(self):
        return f"<step {self._name}>"


def _word(name):
    """A name from a file as one that code can have: nodes become the source of a function."""
    return re.sub(r"\W", "_", str(name), flags=re.ASCII)


def _target(step):
    name = ".".join(map(_word, (step["op"] or step["kind"]).split(".")))
    return _C._functions.get(name.partition(".")[0]) or _Kernel(name)


def nodes(document, names, input_names):
    """An fx.Graph of the document: a placeholder for each tensor (`names`: of outside ones) and input, a call for each
    view and step, and the output."""
    from taper import fx

    graph, values, made, taken = fx.Graph(), document["values"], {}, set()

    def placeholder(name):
        """Under a word of its own."""
        word = base = _word(name)
        while word in taken:
            word = f"{base}_{len(taken)}"
        taken.add(word)
        return graph.placeholder(word)

    for i, (facts, *_) in enumerate(values):
        if facts[0] in (_OUTSIDE, _CONSTANT):
            made[i] = placeholder(names.get(i, f"c_{i}"))
    for i, name in zip(document["inputs"], input_names):
        if i not in made:
            made[i] = placeholder(name)

    def node(i):
        if i not in made:
            (_, _, of, offset, _), shape, strides, *_ = values[i]
            made[i] = graph.call_function(
                taper.as_strided, (node(of), tuple(shape), tuple(strides), offset // _itemsize(values[i]))
            )
        return made[i]

    def arguments(step):
        tensors = iter(step["in"])
        if step["kind"] == "call":
            for kind, *held in step["args"]:
                if kind == 1:
                    yield node(next(tensors))
                elif kind == 2:
                    yield tuple(node(i) if i >= 0 else None for i, _ in zip(tensors, range(held[0])))
                else:
                    yield held[0] if held else None
            return
        for i, n in zip(step["in"], step.get("numbers") or [None] * len(step["in"])):
            yield node(i) if i >= 0 else n
        if step.get("dims") is not None:
            yield tuple(step["dims"])
        if step["kind"] == "fill":
            yield step["numbers"][0]

    for step in document["steps"]:
        called = graph.call_function(_target(step), tuple(arguments(step)))
        if len(step["out"]) == 1:
            made[step["out"][0]] = called
        else:
            import operator

            for k, i in enumerate(step["out"]):
                made[i] = graph.call_function(operator.getitem, (called, k))
    graph.output(tuple(node(i) for i in document["outputs"]))
    return graph


_SIZES = (1, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16)  # by number of a dtype in files


def _itemsize(value):
    return _SIZES[value[0][1]]
