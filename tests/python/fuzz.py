"""Calls every public name with what it does not expect: wrong types, huge and negative sizes, NaN, self-references,
overlapping memory and memory whose owner is gone. Any exception is an answer; the end of the process is not.

    python fuzz.py SEED CALLS [FIRST]    prints the number of calls that returned and that raised

The number of the call under way stands in the file that FUZZ_AT names (8 bytes), so that whoever finds this process
dead can tell which call it was: `fuzz.py SEED N+1 N` runs the block of calls that ends there, and FUZZ_SHOW=1 prints
each of them.
"""

import gc
import gzip
import inspect
import json
import math
import mmap
import os
import pathlib
import random
import resource
import signal
import sys
import warnings

import numpy as np

import taper as torch
from taper import _C

BLOCK = 500  # calls that share tensors
# of processor time: a loop that follows a number instead of the input takes hours, and the timer ends the process
CALL_SECONDS = 20
MEMORY = 1 << 30  # bytes beyond what the process has when it begins
LEFT_OUT = {  # these end or change the process by what they are for, or wait for what never comes
    "set_num_threads",
    "set_num_interop_threads",
    "save",
    "load",
    "compile",
    "fork_rng",
}
HUGE = [2**31 - 1, 2**31, 2**32 + 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64, 2**100]
INTS = [0, 1, 2, 3, 5, 7, 16, 63, 64, 65, -1, -2, -3, -7, -65]
FLOATS = [0.0, -0.0, 1.0, 0.5, -1.5, 1e-300, 1e300, 3e38, math.nan, math.inf, -math.inf]
KEYWORDS = "dim dims axis keepdim dtype device out size shape input other self generator n p weight bias reduction requires_grad memory_format inplace stride padding alpha value".split()


class Hostile:
    """Every protocol answers nonsense."""

    def __index__(self):
        raise ZeroDivisionError("index")

    def __len__(self):
        return 2**40

    def __getitem__(self, i):
        raise KeyError(i)

    def __float__(self):
        raise ValueError("float")

    def __bool__(self):
        raise RuntimeError("bool")

    def __eq__(self, other):
        raise OSError("eq")

    __hash__ = object.__hash__


class LyingLength(list):
    def __len__(self):
        return 3


class Subclass(torch.Tensor):
    pass


class Overriding:
    @classmethod
    def __torch_function__(cls, function, kinds, args=(), kwargs=None):
        return NotImplemented


class Shrinking:
    """A sequence that changes the list it is in while it is read."""

    def __init__(self, owner):
        self.owner = owner

    def __index__(self):
        self.owner.clear()
        return 1


def names():
    """(label, function taking the arguments, the operator's name or None) for everything that can be called."""
    found = []
    helpers = {row[0].split(".")[0] for row in _C._operators() if row[6]}  # of other operators' derivatives: not public
    for label, module in (
        ("torch", torch),
        ("linalg", torch.linalg),
        ("fft", torch.fft),
        ("special", torch.special),
        ("functional", torch.nn.functional),
    ):
        for name in sorted(vars(module)):
            value = getattr(module, name)
            if (
                callable(value)
                and name not in LEFT_OUT | helpers
                and not name.startswith("_")
                and not (isinstance(value, type) and issubclass(value, BaseException))
            ):
                found.append(
                    (
                        f"{label}.{name}",
                        value,
                        getattr(value, "__name__", None) if type(value).__name__ == "Function" else None,
                    )
                )
    skipped = {"__class__", "__init_subclass__", "__subclasshook__", "__new__", "__del__", "__getattribute__"}
    for name in sorted(dir(torch.Tensor)):
        value = getattr(torch.Tensor, name)
        if callable(value) and name not in skipped | LEFT_OUT | helpers:
            found.append(
                (
                    f"Tensor.{name}",
                    value,
                    getattr(value, "__name__", None) if type(value).__name__ == "Method" else None,
                )
            )
    for name in sorted(
        n for n in dir(torch.Tensor) if not callable(getattr(torch.Tensor, n)) and not n.startswith("__")
    ):
        found.append(
            (
                f"Tensor.{name} = ",
                lambda *a, _name=name: setattr(a[0], _name, a[1]) if isinstance(a[0], torch.Tensor) else None,
                None,
            )
        )
        found.append(
            (
                f"Tensor.{name}",
                lambda *a, _name=name: getattr(a[0], _name) if isinstance(a[0], torch.Tensor) else None,
                None,
            )
        )
    return found + layers() + modes()


def layers():
    """Every layer, made with odd sizes and then called."""

    def build(kind):
        def run(*args, **kwargs):
            tensors = [a for a in args if isinstance(a, torch.Tensor)]
            layer = kind(*[a for a in args if not isinstance(a, torch.Tensor)], **kwargs)
            return layer(*tensors[:2]) if tensors else repr(layer)

        return run

    kinds = [
        (name, kind)
        for name, kind in sorted(vars(torch.nn).items())
        if isinstance(kind, type) and issubclass(kind, torch.nn.Module)
    ]
    return [(f"nn.{name}", build(kind), kind) for name, kind in kinds]


def modes():
    """Settings of autograd and mixed precision, put back by those that enter them."""

    def enter(make):
        def run(*args, **kwargs):
            with make(*args, **kwargs):
                return torch.ones(2, requires_grad=True).exp().sum()

        return run

    graph = torch.autograd.graph
    entered = [
        ("autocast", torch.autocast),
        ("set_grad_enabled", torch.set_grad_enabled),
        ("inference_mode", torch.inference_mode),
        ("saved_tensors_hooks", graph.saved_tensors_hooks),
        ("disable_saved_tensors_hooks", graph.disable_saved_tensors_hooks),
        ("save_on_cpu", graph.save_on_cpu),
        ("detect_anomaly", torch.autograd.detect_anomaly),
    ]
    called = [
        ("backward", torch.autograd.backward),
        ("grad", torch.autograd.grad),
        ("_saved", graph.register_multi_grad_hook),
    ]
    return [(f"with {name}", enter(make), None) for name, make in entered] + [
        (f"autograd.{name}", function, None) for name, function in called
    ]


def signatures():
    result = {}
    for name, signature, *_ in _C._operators():
        arguments = signature.partition("(")[2].rpartition(") -> ")[0]
        kinds = [part.strip().split(" ")[0].rstrip("?") for part in arguments.split(", ") if " " in part.strip()]
        result.setdefault(name.split(".")[0], []).append(kinds)
    for _, _, kind in layers():  # sizes for what a layer requires, then a tensor to call it with
        required = [
            p
            for p in list(inspect.signature(kind.__init__).parameters.values())[1:]
            if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
        ]
        result[kind] = [["int"] * len(required) + ["Tensor"], ["int"] * (len(required) + 2) + ["Tensor"]]
    return result


def tensors(rng):
    """Tensors to call with; some share memory with each other or with NumPy arrays that nobody else holds."""
    t = torch.tensor
    base = torch.arange(24, dtype=torch.float32)
    made = [
        t(1.5),
        t(7),
        t(True),
        t([]),
        torch.zeros(0, 3),
        torch.ones(3),
        base.reshape(2, 3, 4).clone(),
        torch.randn(4, 4),
        torch.randn(4, 4, dtype=torch.float64),
        torch.randn(1, 2, 5, 5),
        torch.ones(2, 3).t(),
        torch.ones(1, 3).expand(4, 3),
        t([math.nan, math.inf, -1.0]),
        t([0, 5, -3, 2**62]),
        t([1, 0, 1]),
        torch.zeros(3, dtype=torch.int8),
        torch.ones(2, 2, dtype=torch.uint8),
        t([True, False, True]),
        t([1 + 2j, -3j]),
        torch.ones(3, dtype=torch.float16),
        torch.ones(2, 3, dtype=torch.bfloat16),
        torch.ones(2, 2, 2, 2, 2),
        torch.from_numpy(np.arange(6.0)),
        torch.from_numpy(np.ones((4, 4), np.float32))[::2],
        base.as_strided((3, 3), (1, 1)),
        base[::5],
        torch.ones(3, requires_grad=True),
        torch.ones(4, 4, requires_grad=True) * 2,
    ]
    part = torch.ones(6)
    made += [
        part[:4],
        part[2:],
        torch.from_numpy(np.frombuffer(bytearray(b"\x00" * 48), dtype=np.float32)),
        torch.from_dlpack(np.ones(4, np.float32)),
    ]
    own = torch.ones(2)
    own.me = own
    made.append(own)
    for attempt in (
        lambda: torch.ones(3).as_subclass(Subclass),
        lambda: torch.tensor(bytearray(b"abc"), dtype=torch.uint8),
    ):
        try:
            made.append(attempt())
        except Exception:
            pass
    rng.shuffle(made)
    return made


def anything(rng, pool, depth=0):
    kind = rng.randrange(24)
    if kind < 8:
        return rng.choice(pool)
    if kind < 10:
        return rng.choice(INTS)
    if kind == 10:
        return rng.choice(HUGE) * rng.choice((1, -1))
    if kind == 11:
        return rng.choice(FLOATS)
    if kind in (12, 13) and depth < 3:
        items = [anything(rng, pool, depth + 1) for _ in range(rng.randrange(5))]
        return tuple(items) if rng.random() < 0.5 else items
    if kind == 14:
        return [rng.choice(INTS) for _ in range(rng.randrange(6))]
    if kind == 15:
        loop = [rng.choice(INTS)]
        loop.append(loop)
        return loop
    if kind == 16:
        return rng.choice(
            [
                Hostile(),
                LyingLength(),
                Overriding(),
                object(),
                lambda: 0,
                int,
                torch,
                np.ones(3),
                np.float32(2),
                np.int64(-1),
                np.array("text"),
                np.array(None),
            ]
        )
    if kind == 17:
        shrinking = [1]
        shrinking += [Shrinking(shrinking), 2, 3]
        return shrinking
    if kind == 18:
        return rng.choice(
            [
                torch.float32,
                torch.int64,
                torch.bool,
                torch.complex64,
                torch.float16,
                torch.device("cpu"),
                torch.channels_last,
                torch.contiguous_format,
                torch.Generator(),
                torch.Size([2, 3]),
                torch.strided,
            ]
        )
    if kind == 19:
        return rng.choice(
            [
                "",
                "mean",
                "sum",
                "none",
                "cuda:0",
                "cpu",
                "ij,jk->ik",
                "...i,i",
                "reflect",
                "x" * 300,
                "\0",
                "\ud800",
                b"bytes",
                bytearray(4),
            ]
        )
    if kind == 20:
        return rng.choice(
            [
                slice(None),
                slice(5, -9, 3),
                slice(2**70, None),
                Ellipsis,
                None,
                {},
                {"a": 1},
                set(),
                iter([1]),
                1j,
                NotImplemented,
            ]
        )
    return rng.choice([True, False, None, 1, 0, -1, 2])


def fitting(rng, pool, kind):
    """A value of the right type, seldom a sensible one."""
    if kind == "Tensor" or kind == "Operand":
        return rng.choice(pool) if kind == "Tensor" or rng.random() < 0.7 else rng.choice(INTS + FLOATS)
    if kind.startswith("Tensor"):
        return [rng.choice(pool) for _ in range(rng.randrange(4))]
    if kind == "int":
        return rng.choice(HUGE[:6] + [-h for h in HUGE[:6]] if rng.random() < 0.15 else INTS)
    if kind.startswith("int["):
        return [
            rng.choice(INTS if rng.random() < 0.9 else HUGE[:6] + [-h for h in HUGE[:6]])
            for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 6)))
        ]
    if kind in ("float", "Scalar"):
        return rng.choice(FLOATS + INTS)
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "str":
        return rng.choice(
            [
                "mean",
                "sum",
                "none",
                "constant",
                "reflect",
                "nearest",
                "bilinear",
                "left",
                "fro",
                "nuc",
                "tanh",
                "amax",
                "ij",
                "i,j->ij",
            ]
        )
    if kind == "dtype":
        return rng.choice([torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64, torch.float16, None])
    if kind == "Generator":
        return torch.Generator()
    return None


def arguments(rng, pool, overloads):
    often = 0.4
    if overloads and rng.random() < 0.7:
        alike = pool
        if rng.random() < 0.5:  # operands of one shape get further
            shape = rng.choice(pool).shape
            alike = [t for t in pool if t.shape == shape]
        positional = [fitting(rng, alike, kind) for kind in rng.choice(overloads)]
        if rng.random() < 0.2 and positional:
            positional[rng.randrange(len(positional))] = anything(rng, pool)
        if rng.random() < 0.6:
            del positional[rng.randrange(1, len(positional) + 2) :]
        often = 0.1
    else:
        positional = [rng.choice(pool)] if rng.random() < 0.6 else []
        positional += [
            anything(rng, pool) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 5, 40 if rng.random() < 0.05 else 4)))
        ]
    keywords = {
        rng.choice(KEYWORDS): anything(rng, pool) for _ in range(rng.choice((1, 2)) if rng.random() < often else 0)
    }
    return positional, keywords


class Recorded:
    """Calls that work, from tests/parity, with one of their arguments exchanged: these get past the first checks."""

    def __init__(self):
        folder = pathlib.Path(__file__).parent.parent / "parity"
        with gzip.open(folder / "cases.json.gz") as file:
            self.cases = [
                c
                for c in json.load(file)["cases"]
                if c["dtype"] in ("float32", "int64", "bool", "complex64") and self.function(c["op"])
            ]
        with np.load(folder / "arrays.npz") as file:  # by name, since a read of the file unpacks anew
            self.arrays = dict(file)

    def function(self, name):
        value = torch
        for part in name.split("."):
            value = getattr(value, part, None)
        return value or getattr(torch.Tensor, name, None)

    def decode(self, v):
        if isinstance(v, list):
            return [self.decode(i) for i in v]
        if not isinstance(v, dict):
            return v
        ((kind, held),) = [(k, v[k]) for k in ("t", "l", "tu", "m", "c", "d", "dev", "mf", "s", "e") if k in v][:1]
        if kind == "t":
            return torch.from_numpy(self.arrays[held].copy()).requires_grad_(bool(v["rg"]))
        return {
            "l": lambda: self.decode(held),
            "tu": lambda: tuple(self.decode(held)),
            "m": lambda: {k: self.decode(i) for k, i in held.items()},
            "c": lambda: complex(*held),
            "d": lambda: getattr(torch, held),
            "dev": lambda: "cpu",
            "mf": lambda: getattr(torch, held),
            "s": lambda: slice(*self.decode(held)),
            "e": lambda: Ellipsis,
        }[kind]()

    def call(self, rng, pool):
        """(label, function, positional, keywords)."""
        case = rng.choice(self.cases)
        positional, keywords = list(self.decode(case["args"])), dict(self.decode(case["kwargs"]))
        place = rng.randrange(len(positional) + len(keywords)) if positional or keywords else None
        if place is not None and place < len(positional):
            positional[place] = self.exchange(rng, pool, positional[place])
        elif place is not None:
            name = sorted(keywords)[place - len(positional)]
            keywords[name] = self.exchange(rng, pool, keywords[name])
        return case["op"], self.function(case["op"]), positional, keywords

    def exchange(self, rng, pool, value):
        number = lambda: rng.choice(HUGE[:6] + [-h for h in HUGE[:6]] + INTS)
        if rng.random() < 0.2:
            return anything(rng, pool)
        if isinstance(value, (list, tuple)) and value and all(isinstance(i, int) for i in value):
            changed = list(value)
            changed[rng.randrange(len(changed))] = number()
            return type(value)(changed)
        if isinstance(value, bool) or value is None or isinstance(value, str):
            return anything(rng, pool)
        if isinstance(value, int):
            return number()
        if isinstance(value, float):
            return rng.choice(FLOATS)
        return rng.choice(pool)


def main(seed, calls, first=0):
    warnings.simplefilter("ignore")
    with open("/proc/self/statm") as file:
        limit = int(file.read().split()[0]) * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    show = os.environ.get("FUZZ_SHOW")
    at = None
    if os.environ.get("FUZZ_AT"):
        file = open(os.environ["FUZZ_AT"], "w+b")
        file.truncate(8)
        at = mmap.mmap(file.fileno(), 8)
    targets, kinds, recorded = names(), signatures(), Recorded()
    gc.freeze()  # the cases, which every collection would walk
    returned = raised = 0
    for i in range(first - first % BLOCK, calls):
        if i % BLOCK == 0:
            pool = tensors(random.Random(f"{seed} {i}"))
            torch.set_default_dtype(torch.float32)
            gc.collect()
        if at is not None:
            at[:] = i.to_bytes(8, "little")
        rng = random.Random(f"{seed} call {i}")
        if i >= 2 * len(targets) and rng.random() < 0.5:
            label, function, positional, keywords = recorded.call(rng, pool)
        else:
            label, function, operator = targets[i % len(targets)] if i < 2 * len(targets) else rng.choice(targets)
            positional, keywords = arguments(rng, pool, kinds.get(operator))
        if show:
            print(i, label, end=" ", flush=True)
            print(
                *(
                    f"{type(a).__name__}{list(a.shape) if isinstance(a, torch.Tensor) else ascii(a)[:60] if not isinstance(a, Hostile) else ''}"
                    for a in positional
                ),
                *keywords,
                flush=True,
            )
        signal.setitimer(signal.ITIMER_PROF, CALL_SECONDS)
        try:
            result = function(*positional, **keywords)
            if rng.random() < 0.05:
                repr(result)
            if isinstance(result, torch.Tensor) and result.requires_grad and rng.random() < 0.5:
                result.sum().backward()
            del result
            returned += 1
        except Exception:
            raised += 1
        positional = keywords = None
    print(f"{returned} returned, {raised} raised, {len(targets)} names")


if __name__ == "__main__":
    import faulthandler

    faulthandler.enable()
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
