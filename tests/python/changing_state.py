"""Programs whose state changes between calls: sources of numbers, each a function that reads some state and one that changes it. `plain` ones a graph can follow, and must; of the
others it has to be right, by a graph or without one. test_compile_state.py runs each, tests/long/compile_programs.py thousands of combinations."""
import abc
import array
import collections
import contextlib
import contextvars
import copy
import ctypes
import dataclasses
import datetime
import decimal
import enum
import functools
import gc
import inspect
import io
import itertools
import locale
import math
import operator
import os
import pickle
import queue
import random
import re
import secrets
import string
import struct
import sys
import tempfile
import threading
import time
import types
import typing
import uuid
import weakref

import numpy as np
import taper as torch
from taper import nn

SOURCES, PLAIN = {}, set()


def source(function, plain=False):
    SOURCES[function.__name__] = function
    if plain:
        PLAIN.add(function.__name__)
    return function


def plain(function):
    return source(function, True)


def nothing():
    pass


class Box:
    shared = 1.0

    def __init__(self, k=1.0):
        self.k = k

    def value(self):
        return self.k

    def __call__(self):
        return self.k


class OtherBox(Box):
    def value(self):
        return self.k * 2 + 1


class Slots:
    __slots__ = ("k",)


class DerivedSlots(Slots):
    __slots__ = ("other",)


# ---- What guards follow ----
@plain
def constant():
    return lambda: 2.0, nothing


@plain
def in_a_list():
    a = [1.0, 2.0]

    def change():
        a[0] += 1
    return lambda: a[0], change


@plain
def length_of_a_list():
    a = [1.0]
    return lambda: len(a), lambda: a.append(1.0)


@plain
def in_a_dict():
    a = {"k": [1.0], 2: 5}

    def change():
        a["k"][0] += 1
    return lambda: a["k"][0] + a[2], change


@plain
def keys_of_a_dict():
    a = {1: 0}

    def change():
        a[len(a) + 5] = 0
    return lambda: sum(a) + len(a.keys()), change


@plain
def order_of_a_dict():
    a = {"x": 1.0, "y": 2.0}

    def change():
        a["x"] = a.pop("x")
        a["y"] = a.pop("y") + 1
    return lambda: next(iter(a.values())) * 3 + list(a.items())[-1][1], change


@plain
def in_a_tuple_of_lists():
    a = ([1.0], (2, [3.0]))

    def change():
        a[1][1][0] += 1
    return lambda: a[0][0] + a[1][1][0], change


@plain
def in_a_set():
    a = {1, 2}
    return lambda: sum(a) + (3 in a), lambda: a.add(max(a) + 1)


@plain
def of_equal_members():
    a = {1}

    def change():
        a.clear()
        a.add(2.5 if 1 in a or 1.0 in a else 1)
        a.add(1.0)
    return lambda: float(sum(a)) + len(str(sorted(a))), change


@plain
def by_closure():
    k = 1.0

    def change():
        nonlocal k
        k += 1
    return lambda: k, change


@plain
def by_two_closures():
    k = 1.0

    def outer():
        def inner():
            return k * 2
        return inner

    def change():
        nonlocal k
        k += 1
    made = outer()
    return lambda: made() + 1, change


@plain
def a_rebound_function():
    def one():
        return 1.0

    def two():
        return 2.0
    f = one

    def change():
        nonlocal f
        f = two if f is one else one
    return lambda: f(), change


some_global = 1.0
some_list = [1.0]


@plain
def by_global():
    def change():
        global some_global
        some_global += 1
    return lambda: some_global, change


@plain
def in_a_global_list():
    def change():
        some_list[0] += 1
    return lambda: some_list[0], change


@plain
def by_attribute():
    box = Box()

    def change():
        box.k += 1
    return lambda: box.k, change


@plain
def by_method():
    box = Box()

    def change():
        box.k += 1
    return lambda: box.value(), change


@plain
def by_call_of_an_object():
    box = Box()

    def change():
        box.k += 1
    return lambda: box(), change


@plain
def by_bound_method():
    box = Box()
    method = box.value

    def change():
        box.k += 1
    return lambda: method(), change


@plain
def by_class_attribute():
    class Holder:
        k = 1.0
    holder = Holder()

    def change():
        Holder.k += 1
    return lambda: holder.k + Holder.k, change


@plain
def by_attribute_of_a_base():
    class Base:
        k = 1.0

    class Holder(Base):
        pass

    def change():
        Base.k += 1
    return lambda: Holder.k, change


@plain
def by_other_bases():
    class A:
        k = 1.0

    class B:
        k = 5.0

    class C(A):
        pass
    c = C()

    def change():
        C.__bases__ = (B,) if C.__bases__ == (A,) else (A,)
    return lambda: c.k, change


@plain
def by_class_of_an_object():
    box = Box()

    def change():
        box.__class__ = OtherBox if type(box) is Box else Box
    return lambda: box.value() + (3 if isinstance(box, OtherBox) else 4) + (type(box) is Box), change


@plain
def by_class_of_an_empty_object():
    class A:
        pass

    class B:
        pass
    a = A()

    def change():
        a.__class__ = B if type(a) is A else A
    return lambda: 2 if isinstance(a, A) else 3, change


@plain
def by_instance_dict():
    box = Box()

    def change():
        box.__dict__ = {"k": box.k + 1}
    return lambda: box.k, change


@plain
def by_slots():
    a = Slots()
    a.k = 1.0

    def change():
        a.k += 1
    return lambda: a.k, change


@plain
def by_slots_of_a_base():
    a = DerivedSlots()
    a.k, a.other = 1.0, 2.0

    def change():
        a.k += 1
    return lambda: a.k + a.other, change


@plain
def by_property():
    k = 1.0

    class Holder:
        @property
        def value(self):
            return k
    holder = Holder()

    def change():
        nonlocal k
        k += 1
    return lambda: holder.value, change


@plain
def by_replaced_property():
    class Holder:
        value = property(lambda self: 1.0)
    holder, count = Holder(), [1]

    def change():
        count[0] += 1
        n = count[0]
        Holder.value = property(lambda self: float(n))
    return lambda: holder.value, change


@plain
def by_getattr_hook():
    class Holder:
        def __init__(self):
            self.inside = {"k": 1.0}

        def __getattr__(self, name):
            return self.__dict__["inside"][name]
    holder = Holder()

    def change():
        holder.inside["k"] += 1
    return lambda: holder.k, change


@plain
def by_descriptor():
    class Gives:
        k = 1.0

        def __get__(self, instance, owner):
            return self.k
    gives = Gives()

    class Holder:
        value = gives
    holder = Holder()

    def change():
        gives.k += 1
    return lambda: holder.value, change


@plain
def by_static_and_class_methods():
    k = [1.0]

    class Holder:
        j = 1.0

        @staticmethod
        def first():
            return k[0]

        @classmethod
        def second(cls):
            return cls.j

    def change():
        k[0] += 1
        Holder.j += 2
    return lambda: Holder.first() + Holder().second(), change


@plain
def by_replaced_method():
    class Holder:
        def value(self):
            return 1.0
    holder, count = Holder(), [1]

    def change():
        count[0] += 1
        n = count[0]
        Holder.value = lambda self: float(n)
    return lambda: holder.value(), change


@plain
def by_method_on_the_instance():
    box, count = Box(), [1]

    def change():
        count[0] += 1
        n = count[0]
        box.value = lambda: float(n)
    return lambda: box.value(), change


@plain
def by_special_methods():
    class Number:
        def __init__(self, k):
            self.k = k

        def __float__(self):
            return self.k

        def __add__(self, other):
            return self.k + other

        def __len__(self):
            return int(self.k)

        def __getitem__(self, i):
            return self.k + i

        def __contains__(self, i):
            return i < self.k

        def __bool__(self):
            return self.k > 2

        def __eq__(self, other):
            return self.k == other

        def __iter__(self):
            yield from range(int(self.k))
    number = Number(1.0)

    def change():
        number.k += 1
    return lambda: float(number) + (number + 1) + len(number) + number[2] + (2 in number) + bool(number) + (number == 3) + sum(number), change


@plain
def by_metaclass():
    class Meta(type):
        k = 1.0

        def __getattr__(cls, name):
            return Meta.k

    class Holder(metaclass=Meta):
        pass

    def change():
        Meta.k += 1
    return lambda: Holder.anything, change


@plain
def by_default():
    def f(k=1.0, *, j=2.0):
        return k + j

    def change():
        f.__defaults__ = (f.__defaults__[0] + 1,)
        f.__kwdefaults__ = {"j": f.__kwdefaults__["j"] + 3}
    return lambda: f(), change


@plain
def by_mutable_default():
    def f(k=[1.0]):
        return k[0]

    def change():
        f.__defaults__[0][0] += 1
    return lambda: f(), change


@plain
def by_code():
    def one():
        return 1.0

    def two():
        return 2.0
    f = types.FunctionType(one.__code__, globals())

    def change():
        f.__code__ = two.__code__ if f.__code__ is one.__code__ else one.__code__
    return lambda: f(), change


@plain
def by_attribute_of_a_function():
    def f():
        return f.k
    f.k = 1.0

    def change():
        f.k += 1
    return lambda: f(), change


@plain
def by_partial():
    box = [1.0]
    f = functools.partial(lambda a, b: a[0] + b, box, b=1)

    def change():
        box[0] += 1
    return lambda: f(), change


@plain
def by_dataclass():
    @dataclasses.dataclass
    class Config:
        k: float = 1.0
        many: list = dataclasses.field(default_factory=lambda: [1.0])
    config = Config()

    def change():
        config.k += 1
        config.many.append(config.k)
    return lambda: config.k + config.many[-1], change


@plain
def by_fields_of_a_dataclass():
    @dataclasses.dataclass
    class Config:
        k: float = 1.0
        j: float = 2.0
    config = Config()

    def change():
        config.j += 1
    return lambda: sum(dataclasses.astuple(config)) + dataclasses.asdict(config)["j"], change


@plain
def by_named_tuple():
    Pair = collections.namedtuple("Pair", "k j")
    held = [Pair(1.0, 2.0)]

    def change():
        held[0] = held[0]._replace(k=held[0].k + 1)
    return lambda: held[0].k + held[0].j, change


@plain
def by_enum():
    class Mode(enum.Enum):
        A = 1
        B = 2
    held = [Mode.A]

    def change():
        held[0] = Mode.B if held[0] is Mode.A else Mode.A
    return lambda: held[0].value + (held[0] is Mode.A), change


@plain
def by_namespace():
    a = types.SimpleNamespace(k=1.0, inner=types.SimpleNamespace(j=1.0))

    def change():
        a.inner.j += 1
    return lambda: a.k + a.inner.j, change


@plain
def by_counter():
    a = collections.Counter("aab")
    return lambda: a["a"] + a.most_common(1)[0][1], lambda: a.update("a")


@plain
def by_default_dict():
    a = collections.defaultdict(lambda: 1.0)
    a["k"] = 1.0

    def change():
        a["k"] += 1
    return lambda: a["k"], change


@plain
def by_default_factory():
    a, count = collections.defaultdict(lambda: 1.0), [1.0]

    def change():
        count[0] += 1
        n = count[0]
        a.default_factory = lambda: n
    return lambda: a.default_factory() + len(a), change


@plain
def by_ordered_dict():
    a = collections.OrderedDict(x=1.0, y=2.0, z=3.0)
    return lambda: next(iter(a.values())) + 10 * list(a.values())[1], lambda: a.move_to_end(next(iter(a)))


@plain
def by_user_containers():
    a, b = collections.UserDict(k=1.0), collections.UserList([1.0])

    def change():
        a["k"] += 1
        b.append(2.0)
    return lambda: a["k"] + len(b), change


@plain
def by_chain_map():
    inner = {"k": 1.0}
    a = collections.ChainMap({}, inner)

    def change():
        inner["k"] += 1
    return lambda: a["k"], change


@plain
def by_list_subclass():
    class Many(list):
        k = 1.0
    a = Many([1.0])
    a.j = 1.0

    def change():
        a.j += 1
        a.append(2.0)
    return lambda: a.j + len(a) + a.k, change


@plain
def by_dict_subclass():
    class Config(dict):
        def __getattr__(self, name):
            return self[name]
    a = Config(k=1.0)

    def change():
        a["k"] += 1
    return lambda: a.k, change


@plain
def by_environment():
    os.environ["TAPER_TEST_K"] = "1"

    def change():
        os.environ["TAPER_TEST_K"] = str(int(os.environ["TAPER_TEST_K"]) + 1)
    return lambda: int(os.environ["TAPER_TEST_K"]) + len(os.getenv("TAPER_TEST_K", "")), change


@plain
def by_text():
    box = ["1.5"]

    def change():
        box[0] = str(float(box[0]) + 1)
    return lambda: float(box[0]) + len(f"{box[0]}!"), change


@plain
def by_objects_as_keys():
    class Key:
        def __init__(self, k):
            self.k = k
    key = Key(1.0)
    a, b = {key: 2.0}, {key}

    def change():
        key.k += 1
    return lambda: sum(each.k for each in a) + sum(each.k for each in b), change


@plain
def by_attribute_looked_up():
    box, name = Box(), ["k"]
    box.other = 5.0

    def change():
        box.k += 1
        name[0] = "other" if name[0] == "k" else "k"
    return lambda: getattr(box, name[0]) + (1 if hasattr(box, "missing") else 0), change


@plain
def by_attribute_that_appears():
    box = Box()

    def change():
        if hasattr(box, "extra"):
            del box.extra
        else:
            box.extra = 1
    return lambda: 5 if hasattr(box, "extra") else 6, change


@plain
def by_alias_of_getattr():
    box, look = Box(), getattr

    def change():
        box.k += 1
    return lambda: look(box, "k"), change


@plain
def by_vars():
    box = Box()

    def change():
        box.k += 1
    return lambda: vars(box)["k"] + box.__dict__["k"], change


@plain
def by_format():
    box = Box()

    def change():
        box.k += 1
    return lambda: float("{0.k}".format(box)) + float(f"{box.k}"), change


@plain
def by_match():
    box = Box()
    Box.__match_args__ = ("k",)

    def read():
        match box:
            case Box(k=1.0):
                return 1.0
            case Box(k):
                return k + 10

    def change():
        box.k += 1
    return read, change


@plain
def by_copy():
    box = Box()

    def change():
        box.k += 1
    return lambda: copy.copy(box).k + copy.deepcopy([box])[0].k, change


@plain
def by_generator_inside():
    a = [1.0, 2.0]

    def many():
        for each in a:
            yield each * 2
    return lambda: sum(many()) + sum(i for i in a) + max(map(lambda each: each + 1, a)), lambda: a.append(3.0)


@plain
def by_sorted_with_key():
    a = [3.0, 1.0, 2.0]

    def change():
        a[0] -= 1.5
    return lambda: sorted(a, key=lambda v: -v)[0] + min(a) + functools.reduce(lambda u, v: u * 2 + v, a), change


@plain
def by_exception():
    a = {}

    def change():
        a["k"] = len(a) + 1.0 + a.get("k", 0)

    def read():
        try:
            return a["k"]
        except KeyError:
            return 0.5
    return read, change


@plain
def by_context_manager():
    a = [1.0]

    @contextlib.contextmanager
    def scope():
        yield a[0]

    def read():
        with scope() as k:
            return k

    def change():
        a[0] += 1
    return read, change


@plain
def by_module_attribute():
    module = types.ModuleType("a_module")
    module.k, module.inner = 1.0, types.ModuleType("inner")
    module.inner.j = 1.0

    def change():
        module.k += 1
        module.inner.j += 2
    return lambda: module.k + module.inner.j, change


@plain
def by_import_inside():
    module = sys.modules["taper_test_module"] = types.ModuleType("taper_test_module")
    module.k = 1.0

    def read():
        import taper_test_module
        return taper_test_module.k

    def change():
        module.k += 1
    return read, change


@plain
def by_import_from():
    module = sys.modules["taper_test_module"] = types.ModuleType("taper_test_module")
    module.k = 1.0

    def read():
        from taper_test_module import k
        return k

    def change():
        module.k += 1
    return read, change


@plain
def by_another_module_of_that_name():
    def put(k):
        sys.modules["taper_test_module"] = types.ModuleType("taper_test_module")
        sys.modules["taper_test_module"].k = k
    put(1.0)

    def read():
        import taper_test_module
        return taper_test_module.k
    return read, lambda: put(sys.modules["taper_test_module"].k + 1)


@plain
def by_shadowed_builtin():
    space = {}
    exec("def read():\n    return abs(-2.0)", space)

    def change():
        if "abs" in space:
            del space["abs"]
        else:
            space["abs"] = lambda v: 7.0
    read = space["read"]
    return lambda: read(), change


@plain
def by_same_code_in_two_modules():
    spaces = [{"k": 1.0, "__name__": "one"}, {"k": 2.0, "__name__": "two"}]
    for space in spaces:
        exec("def read():\n    return k", space)
    first, second = spaces[0]["read"], spaces[1]["read"]

    def change():
        spaces[1]["k"] += 1
    return lambda: first() + second(), change


@plain
def by_abstract_class():
    class Base(abc.ABC):
        @abc.abstractmethod
        def value(self):
            ...

    class Holder(Base):
        k = 1.0

        def value(self):
            return self.k
    holder = Holder()

    def change():
        holder.k += 1
    return lambda: holder.value(), change


@plain
def by_typed_dict():
    class Config(typing.TypedDict):
        k: float
    a = Config(k=1.0)

    def change():
        a["k"] += 1
    return lambda: a["k"], change


@plain
def by_cached_property():
    class Holder:
        j = 1.0

        @functools.cached_property
        def k(self):
            return self.j
    holder = Holder()
    holder.k

    def change():
        holder.j += 1
        del holder.__dict__["k"]
        holder.k
    return lambda: holder.k, change


@plain
def by_numpy_scalar():
    a = [np.float64(1.0), np.int64(2)]

    def change():
        a[0] = a[0] + 1
    return lambda: float(a[0]) + int(a[1]), change


@plain
def by_ufunc():
    a = [1.0]

    def change():
        a[0] += 1
    return lambda: float(np.sqrt(a[0])) + math.sqrt(a[0]) + np.pi, change


@plain
def by_regular_expression():
    a, pattern = ["a1"], re.compile(r"\d+")

    def change():
        a[0] = "a" + str(int(a[0][1:]) + 1)
    return lambda: float(pattern.search(a[0]).group()), change


# ---- Of tensors and modules ----
@plain
def by_tensor_in_place():
    t = torch.ones(3)
    return lambda: t.sum(), lambda: t.add_(1)


@plain
def by_tensor_rebound():
    t = torch.ones(3)

    def change():
        nonlocal t
        t = t + 1
    return lambda: t.mean(), change


@plain
def by_tensor_data():
    t = torch.ones(3)

    def change():
        t.data = t.data + 1
    return lambda: t.mean(), change


@plain
def by_tensor_set():
    t = torch.ones(3)
    return lambda: t.sum(), lambda: t.set_(torch.full((4,), t.sum().item()))


@plain
def by_tensor_shape():
    t = torch.arange(6.0).reshape(2, 3)

    def change():
        t.resize_(*t.shape[::-1])
    return lambda: t[0].sum() + t.shape[0], change


@plain
def by_tensor_transposed():
    t = torch.arange(9.0).reshape(3, 3)
    return lambda: (t * torch.arange(3.0)).sum(0)[1], lambda: t.t_()


@plain
def by_tensor_view():
    t = torch.arange(6.0)
    view = t[2:4]
    return lambda: view.sum(), lambda: t.add_(1)


@plain
def by_numpy_memory():
    a = np.ones(3, dtype=np.float32)
    t = torch.from_numpy(a)

    def change():
        a[0] += 1
    return lambda: t.sum(), change


@plain
def by_tensor_flag():
    t = torch.ones(3)

    def change():
        t.requires_grad_(not t.requires_grad)
    return lambda: 2.0 if t.requires_grad else 3.0, change


@plain
def by_tensor_attribute():
    t = torch.ones(3)
    t.k = 1.0

    def change():
        t.k += 1
    return lambda: t.k, change


@plain
def by_dtype_of_a_tensor():
    t = torch.ones(3)

    def change():
        t.data = t.data.double() if t.dtype == torch.float32 else t.data.float()
    return lambda: (2.0 if t.dtype == torch.float32 else 3.0), change


@plain
def by_gradient():
    t = torch.ones(1, requires_grad=True)

    def change():
        t.grad = torch.ones(1) if t.grad is None else t.grad + 1
    return lambda: 1.0 if t.grad is None else t.grad.sum(), change


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.k, self.options = nn.Parameter(torch.full((1,), 2.0)), 1.0, {"a": [1.0]}
        self.register_buffer("b", torch.ones(1))
        self.inner = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.inner.weight, 0.5)

    def forward(self, x):
        return self.inner(x * self.w + self.b) * self.k + self.options["a"][0]


def module(change, is_plain=True):
    def made():
        m = Small()
        one = torch.ones(1)
        return lambda: m(one), lambda: change(m)
    made.__name__ = change.__name__
    return source(made, is_plain)


@module
def module_attribute(m):
    m.k += 1


@module
def module_option(m):
    m.options["a"][0] += 1


@module
def module_parameter(m):
    with torch.no_grad():
        m.w.add_(1)


@module
def module_parameter_replaced(m):
    m.w = nn.Parameter(m.w.detach() + 1)


@module
def module_buffer_replaced(m):
    m.b = m.b + 1


@module
def module_child_replaced(m):
    w = m.inner.weight.item()
    m.inner = nn.Linear(1, 1, bias=False)
    nn.init.constant_(m.inner.weight, w + 1)


@module
def module_frozen(m):
    m.w.requires_grad_(not m.w.requires_grad)


@module
def module_hook(m):
    m.register_forward_hook(lambda module, args, out: out + 1)


@module
def module_pre_hook(m):
    m.inner.register_forward_pre_hook(lambda module, args: (args[0] + 1,))


@module
def module_forward_replaced(m):
    before = m.forward
    m.forward = lambda x: before(x) + 1


@module
def module_class_changed(m):
    m.__class__ = type("Other", (Small,), {"forward": lambda self, x: Small.forward(self, x) + self.k})


@module
def module_state_loaded(m):
    m.load_state_dict({key: value + 1 for key, value in m.state_dict().items()})


@plain
def module_hook_removed():
    m = Small()
    handles = [m.register_forward_hook(lambda module, args, out: out + 1) for _ in range(4)]
    one = torch.ones(1)
    return lambda: m(one), lambda: handles and handles.pop().remove()


@plain
def module_mode():
    m = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1), nn.Dropout(0.0))
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    x = torch.arange(4.0).reshape(4, 1)
    return lambda: m(x).sum(), lambda: m.train(not m.training)


@plain
def module_list():
    m = nn.ModuleList([nn.Linear(1, 1, bias=False)])
    nn.init.constant_(m[0].weight, 0.5)
    one = torch.ones(1)

    def read():
        y = one
        for each in m:
            y = each(y)
        return y

    def change():
        m.append(copy.deepcopy(m[0]))
    return read, change


@source
def module_hook_of_all():
    m, one, handles = Small(), torch.ones(1), []

    def change():
        if handles:
            handles.pop().remove()
        else:
            handles.append(nn.modules.module.register_module_forward_hook(lambda module, args, out: out + 1))
    cleanup.append(lambda: [handle.remove() for handle in handles])
    return lambda: m(one), change


cleanup = []


@source
def patched_function_of_the_package():
    before, count = torch.nn.functional.relu, [0.0]

    def put(*unused):
        count[0] += 1
        n = count[0]
        torch.nn.functional.relu = lambda x, inplace=False: before(x) + n
    cleanup.append(lambda: setattr(torch.nn.functional, "relu", before))
    m, one = nn.ReLU(), torch.ones(1)
    return lambda: torch.nn.functional.relu(one) + m(one), put


@source
def patched_class_of_the_package():
    before, count = nn.Linear.forward, [0.0]

    def put():
        count[0] += 1
        n = count[0]
        nn.Linear.forward = lambda self, x: before(self, x) + n
    cleanup.append(lambda: setattr(nn.Linear, "forward", before))
    m, one = nn.Linear(1, 1), torch.ones(1)
    nn.init.constant_(m.weight, 0.5), nn.init.constant_(m.bias, 0.5)
    return lambda: m(one), put


@source
def patched_method_of_tensors():
    before, count = torch.Tensor.relu, [0.0]

    def put():
        count[0] += 1
        n = count[0]
        torch.Tensor.relu = lambda self: before(self) + n
    cleanup.append(lambda: setattr(torch.Tensor, "relu", before))
    one = torch.ones(1)
    return lambda: one.relu(), put


@source
def patched_builtin():
    import builtins
    before, count = builtins.abs, [0.0]

    def put():
        count[0] += 1
        n = count[0]
        builtins.abs = lambda v: before(v) + n
    cleanup.append(lambda: setattr(builtins, "abs", before))
    return lambda: abs(-1.0), put


@source
def patched_math():
    before, count = math.sqrt, [0.0]

    def put():
        count[0] += 1
        n = count[0]
        math.sqrt = lambda v: before(v) + n
    cleanup.append(lambda: setattr(math, "sqrt", before))
    return lambda: math.sqrt(4.0), put


@source
def optimiser_rate():
    p = nn.Parameter(torch.ones(1))
    o = torch.optim.SGD([p], lr=1.0)

    def change():
        o.param_groups[0]["lr"] *= 0.5
    return lambda: o.param_groups[0]["lr"], change


@source
def schedule_rate():
    p = nn.Parameter(torch.ones(1))
    o = torch.optim.SGD([p], lr=1.0)
    s = torch.optim.lr_scheduler.ExponentialLR(o, 0.5)

    def change():
        o.step()
        s.step()
    return lambda: s.get_last_lr()[0] + s.last_epoch, change


@source
def tensor_version():
    t = torch.ones(3)
    return lambda: t._version, lambda: t.add_(1)


@source
def tensor_is_leaf():
    held = [torch.ones(1, requires_grad=True)]

    def change():
        held[0] = held[0] * 1 if held[0].is_leaf else torch.ones(1, requires_grad=True)
    return lambda: 2.0 if held[0].is_leaf else 3.0, change


@source
def tensor_item():
    t = torch.ones(1)
    return lambda: t.item() + float(t) + int(t), lambda: t.add_(1)


@source
def tensor_as_text():
    t = torch.ones(1)
    return lambda: len(str(t)) + len(f"{t}"), lambda: t.mul_(100)


@source
def tensor_as_list():
    t = torch.ones(2)
    return lambda: sum(t.tolist()) + sum(float(v) for v in t), lambda: t.add_(1)


@source
def tensor_as_array():
    t = torch.ones(2)
    return lambda: float(t.numpy().sum()) + float(np.asarray(t)[0]), lambda: t.add_(1)


@source
def tensor_by_a_weak_reference():
    held = [torch.ones(1)]
    w = [weakref.ref(held[0])]

    def change():
        held[0] = held[0] + 1
        w[0] = weakref.ref(held[0])
    return lambda: w[0]().sum(), change


@source
def tensor_storage():
    t = torch.ones(3)
    return lambda: t.untyped_storage().nbytes(), lambda: t.resize_(t.numel() + 2)


# ---- Random numbers ----
def drawn(read, name):
    def made():
        return read, nothing
    made.__name__ = name
    return source(made)


for name, read in {"random.random": lambda: random.random(), "random.choice": lambda: random.choice([1.0, 2.0, 3.0]), "random.uniform": lambda: random.uniform(1, 2), "random.gauss": lambda: random.gauss(0, 1),
                   "random.shuffle": lambda: (lambda a: random.shuffle(a) or a[0])(list(range(9))), "random.sample": lambda: sum(random.sample(range(99), 3)), "random.getrandbits": lambda: random.getrandbits(8),
                   "np.rand": lambda: np.random.rand(), "np.beta": lambda: np.random.beta(1.0, 1.0), "np.randint": lambda: np.random.randint(100), "np.choice": lambda: float(np.random.choice([1, 2, 3, 4, 5])),
                   "np.normal": lambda: np.random.normal(), "np.permutation": lambda: float(np.random.permutation(50)[0]), "np.rand_array": lambda: float(np.random.rand(3).sum()),
                   "torch.rand": lambda: torch.rand(1), "torch.randn_like": lambda: torch.randn_like(torch.ones(1)), "torch.dropout": lambda: nn.functional.dropout(torch.ones(8), 0.5).sum(),
                   "torch.randperm": lambda: torch.randperm(50)[0] * 1.0, "torch.bernoulli": lambda: torch.bernoulli(torch.full((9,), 0.5)).sum(), "torch.rand_item": lambda: torch.rand(1).item(),
                   "torch.manual_seed": lambda: (torch.manual_seed(3), torch.rand(1))[1], "torch.seed_and_random": lambda: (torch.manual_seed(random.randrange(50)), torch.rand(1))[1],
                   "torch.initial_seed": lambda: torch.initial_seed() % 97, "torch.rng_state": lambda: float(torch.get_rng_state().sum()) + torch.rand(1)}.items():
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


# ---- What no guard follows ----
@source
def thread_local():
    v = threading.local()
    v.k = 1.0

    def change():
        v.k += 1
    return lambda: v.k, change


@source
def thread_local_subclass():
    class Local(threading.local):
        k = 1.0
    v = Local()

    def change():
        v.k += 1
    return lambda: v.k, change


@source
def weak_reference():
    a = Box()
    w = weakref.ref(a)

    def change():
        a.k += 1
    return lambda: w().k, change


@source
def weak_proxy():
    a = Box()
    w = weakref.proxy(a)

    def change():
        a.k += 1
    return lambda: w.k, change


@source
def weak_dict():
    a = Box()
    w = weakref.WeakValueDictionary(a=a)

    def change():
        a.k += 1
    return lambda: w["a"].k, change


@source
def weak_set():
    held = [Box()]
    w = weakref.WeakSet(held)

    def change():
        held.append(Box())
        w.add(held[-1])
    return lambda: len(w), change


def by_getter(make, name, access):
    def made():
        a = make()

        def change():
            a.k += 1
            a.items[0] += 1
        return access(a), change
    made.__name__ = name
    return source(made)


def boxed():
    box = Box()
    box.items = [1.0]
    return box


def with_getter(getter, pick=lambda a: a):
    def access(a):
        return lambda: getter(pick(a))
    return access


by_getter(boxed, "attrgetter", with_getter(operator.attrgetter("k")))
by_getter(boxed, "itemgetter", with_getter(operator.itemgetter(0), lambda a: a.items))
by_getter(boxed, "methodcaller", with_getter(operator.methodcaller("value")))
by_getter(boxed, "attrgetter_inside", lambda a: lambda: operator.attrgetter("k")(a))
by_getter(boxed, "mapped_attrgetter", lambda a: lambda: sum(map(operator.attrgetter("k"), [a])))
by_getter(boxed, "operator.getitem", lambda a: lambda: operator.getitem(a.items, 0))
by_getter(boxed, "slot_wrapper", lambda a: lambda: object.__getattribute__(a, "k") + list.__getitem__(a.items, 0))
by_getter(boxed, "bound_slot", lambda a: (lambda get: lambda: get(0))(a.items.__getitem__))
by_getter(boxed, "partial_of_getattr", lambda a: (lambda get: lambda: get("k"))(functools.partial(getattr, a)))
by_getter(boxed, "member_descriptor", lambda a: lambda: Box.value(a) + Box.__call__(a))
by_getter(boxed, "pickled", lambda a: lambda: pickle.loads(pickle.dumps(a)).k)
by_getter(boxed, "inspected", lambda a: lambda: inspect.getattr_static(a, "k"))
by_getter(boxed, "members", lambda a: lambda: dict(inspect.getmembers(a))["k"])
by_getter(boxed, "from_a_queue", lambda a: lambda: gc.get_referents(a) and a.k)


@source
def of_ctypes():
    b = ctypes.c_double(1.0)

    def change():
        b.value += 1
    return lambda: b.value, change


@source
def of_a_ctypes_struct():
    class Pair(ctypes.Structure):
        _fields_ = [("k", ctypes.c_int)]
    b = Pair(1)

    def change():
        b.k += 1
    return lambda: b.k, change


@source
def of_a_ctypes_array():
    b = (ctypes.c_float * 3)(1, 2, 3)

    def change():
        b[0] += 1
    return lambda: b[0] + sum(b), change


@source
def of_an_array():
    b = array.array("d", [1.0])

    def change():
        b[0] += 1
    return lambda: b[0], change


@source
def of_a_bytearray():
    b = bytearray(b"abc")

    def change():
        b[0] += 1
    return lambda: b[0] + len(b), change


@source
def of_a_memoryview():
    b = bytearray(b"abc")
    m = memoryview(b)

    def change():
        b[0] += 1
    return lambda: m[0], change


@source
def of_a_numpy_array():
    a = np.ones(3)

    def change():
        a[0] += 1
    return lambda: float(a[0]) + a.sum(), change


@source
def of_an_array_made_a_tensor():
    a = np.ones(3, dtype=np.float32)

    def change():
        a[0] += 1
    return lambda: torch.tensor(a).sum() + torch.from_numpy(a).sum() + torch.as_tensor(a)[0], change


@source
def of_an_array_in_arithmetic():
    a = np.ones(1, dtype=np.float32)
    one = torch.ones(1)

    def change():
        a[0] += 1
    return lambda: (one + torch.from_numpy(a)) * 2, change


@source
def of_a_numpy_subclass():
    class Held(np.ndarray):
        pass
    a = np.ones(3).view(Held)
    a.k = 1.0

    def change():
        a.k += 1
    return lambda: a.k, change


@source
def of_a_deque():
    d = collections.deque([1.0, 2.0])
    return lambda: d[0] + len(d), lambda: d.rotate(1) or d.append(3.0)


@source
def of_a_queue():
    q = queue.Queue()
    return lambda: q.qsize(), lambda: q.put(1)


@source
def of_a_proxy():
    a = {"k": 1.0}
    p = types.MappingProxyType(a)

    def change():
        a["k"] += 1
    return lambda: p["k"], change


@source
def of_dict_views():
    a = {"k": 1.0}
    values, items = a.values(), a.items()

    def change():
        a["k"] += 1
    return lambda: sum(values) + len(items), change


@source
def of_an_iterator():
    it = iter(range(1, 99))
    return lambda: next(it), nothing


@source
def of_an_iterator_with_default():
    it = iter([1.0, 2.0])
    return lambda: next(it, 9.0), nothing


@source
def of_a_generator():
    def many():
        k = 0.0
        while True:
            k += 1
            yield k
    g = many()
    return lambda: next(g), nothing


@source
def of_a_generator_sent_to():
    def many():
        k = 0.0
        while True:
            k += yield k
    g = many()
    next(g)
    return lambda: g.send(2.0), nothing


@source
def of_a_count():
    c = itertools.count(1)
    return lambda: next(c), nothing


@source
def of_a_cycle():
    c = itertools.cycle([1.0, 2.0, 3.0])
    return lambda: next(c) + sum(itertools.islice(c, 1)), nothing


@source
def of_a_loop_over_an_iterator():
    it = zip([1.0, 2.0, 3.0, 4.0], range(9))

    def read():
        for a, b in it:
            return a + b
        return 0.0
    return read, nothing


@source
def of_membership_in_an_iterator():
    it = iter(range(99))
    return lambda: 1.0 if 3 in it else 2.0, nothing


@source
def of_unpacking_an_iterator():
    it = iter([[1.0], [2.0, 1.0], [3.0], [4.0]] * 9)

    def read():
        first, *rest = next(it)
        return first + len(rest)
    return read, nothing


@source
def of_a_context_variable():
    c = contextvars.ContextVar("taper_test", default=1.0)
    return lambda: c.get(), lambda: c.set(c.get() + 1)


@source
def of_a_cache():
    box = Box()

    @functools.lru_cache
    def f(n):
        return box.k + n

    def change():
        box.k += 1
        f.cache_clear()
    return lambda: f(1), change


@source
def of_a_cache_that_stays():
    box = Box()

    @functools.cache
    def f(n):
        return box.k + n

    def change():
        box.k += 1
    return lambda: f(1) + f.cache_info().currsize, change


@source
def of_single_dispatch():
    @functools.singledispatch
    def f(x):
        return 1.0

    def change():
        f.register(float, lambda x: 5.0)
    return lambda: f(1.0), change


@source
def of_files():
    path = tempfile.mktemp()
    with open(path, "w") as file:
        file.write("1")
    cleanup.append(lambda: os.path.exists(path) and os.remove(path))

    def change():
        with open(path, "a") as file:
            file.write("1")

    def read():
        with open(path) as file:
            return float(file.read())
    return read, change


@source
def of_file_sizes():
    path = tempfile.mktemp()
    open(path, "w").close()
    cleanup.append(lambda: os.path.exists(path) and os.remove(path))

    def change():
        with open(path, "a") as file:
            file.write("1")
    return lambda: os.path.getsize(path) + os.stat(path).st_size + len(os.listdir(os.path.dirname(path))) * 0, change


@source
def of_text_streams():
    s = io.StringIO("1\n2\n3\n4\n5\n6\n7\n8\n")
    return lambda: float(s.readline()), nothing


@source
def of_decimals():
    before = decimal.getcontext().prec
    cleanup.append(lambda: setattr(decimal.getcontext(), "prec", before))

    def change():
        decimal.getcontext().prec = 3 if decimal.getcontext().prec != 3 else 6
    return lambda: float(decimal.Decimal(1) / decimal.Decimal(3)), change


@source
def of_recursion_limit():
    before = sys.getrecursionlimit()
    cleanup.append(lambda: sys.setrecursionlimit(before))
    return lambda: sys.getrecursionlimit(), lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1)


@source
def of_sys_modules():
    sys.modules["taper_test_module"] = types.ModuleType("taper_test_module")
    sys.modules["taper_test_module"].k = 1.0

    def change():
        sys.modules["taper_test_module"].k += 1
    return lambda: sys.modules["taper_test_module"].k, change


@source
def of_importlib():
    import importlib
    sys.modules["taper_test_module"] = types.ModuleType("taper_test_module")
    sys.modules["taper_test_module"].k = 1.0

    def change():
        sys.modules["taper_test_module"].k += 1
    return lambda: importlib.import_module("taper_test_module").k, change


@source
def of_globals():
    def change():
        global some_global
        some_global += 1
    return lambda: globals()["some_global"], change


@source
def of_the_globals_of_a_function():
    def change():
        global some_global
        some_global += 1
    return lambda: nothing.__globals__["some_global"], change


@source
def of_eval():
    box = [1.0]

    def change():
        box[0] += 1
    return lambda: eval("box[0]", {"box": box}), change


@source
def of_a_frame():
    def change():
        global some_global
        some_global += 1
    return lambda: sys._getframe().f_globals["some_global"], change


@source
def of_a_cell():
    k = 1.0

    def f():
        return k

    def change():
        nonlocal k
        k += 1
    return lambda: f.__closure__[0].cell_contents, change


@source
def of_subclasses():
    class Base:
        pass
    held = []
    return lambda: len(Base.__subclasses__()), lambda: held.append(type("Sub", (Base,), {}))


@source
def of_a_lock():
    lock = threading.Lock()
    return lambda: 1.0 if lock.locked() else 2.0, lambda: lock.release() if lock.locked() else lock.acquire()


@source
def of_an_event():
    e = threading.Event()
    return lambda: 1.0 if e.is_set() else 2.0, lambda: e.clear() if e.is_set() else e.set()


@source
def of_thread_names():
    def change():
        threading.current_thread().name += "x"
    before = threading.current_thread().name
    cleanup.append(lambda: setattr(threading.current_thread(), "name", before))
    return lambda: len(threading.current_thread().name), change


@source
def of_locale():
    return lambda: len(locale.setlocale(locale.LC_ALL)), nothing


@source
def of_signal_handlers():
    import signal
    return lambda: 1.0 if signal.getsignal(signal.SIGTERM) else 2.0, nothing


@source
def of_gc_counts():
    before = gc.get_threshold()
    cleanup.append(lambda: gc.set_threshold(*before))
    return lambda: gc.get_threshold()[0], lambda: gc.set_threshold(gc.get_threshold()[0] + 1, *before[1:])


@source
def of_struct():
    b = bytearray(struct.pack("d", 1.0))

    def change():
        struct.pack_into("d", b, 0, struct.unpack("d", b)[0] + 1)
    return lambda: struct.unpack("d", b)[0], change


@source
def of_templates():
    t = string.Template("$k")
    box = {"k": 1}

    def change():
        box["k"] += 1
    return lambda: float(t.substitute(box)), change


@source
def of_a_clock():
    zero = time.monotonic() + 1e6
    return lambda: 1.0 if time.monotonic() < zero else 2.0, nothing


@source
def of_dates():
    return lambda: 1.0 if datetime.datetime.now().year > 1999 and datetime.date.today().year > 1999 else 2.0, nothing


@source
def of_identifiers():
    return lambda: 1.0 if uuid.uuid4() != uuid.uuid4() and secrets.token_bytes(4) is not None and os.urandom(2) and os.getpid() else 2.0, nothing


@source
def of_numpy_settings():
    before = np.get_printoptions()["precision"]
    cleanup.append(lambda: np.set_printoptions(precision=before))
    return lambda: np.get_printoptions()["precision"], lambda: np.set_printoptions(precision=np.get_printoptions()["precision"] + 1)


@source
def of_numpy_errors():
    before = np.geterr()
    cleanup.append(lambda: np.seterr(**before))
    return lambda: 1.0 if np.geterr()["divide"] == "warn" else 2.0, lambda: np.seterr(divide="ignore" if np.geterr()["divide"] == "warn" else "warn")


@source
def of_a_counter_inside():
    k = [0.0]

    def read():
        k[0] += 1
        return k[0]
    return read, nothing


@source
def of_an_attribute_counted_inside():
    box = Box()

    def read():
        box.k += 1
        return box.k
    return read, nothing


@source
def of_a_global_counted_inside():
    def read():
        global some_global
        some_global += 1
        return some_global
    return read, nothing


@source
def of_a_cell_counted_inside():
    k = 0.0

    def read():
        nonlocal k
        k += 1
        return k
    return read, nothing


@source
def of_a_module_counted_inside():
    module = types.ModuleType("counted")
    module.k, module.inner = 0.0, types.ModuleType("inner")
    module.inner.k = 0.0

    def read():
        module.inner.k += 1
        return module.inner.k
    return read, nothing


@source
def of_an_import_counted_inside():
    sys.modules["taper_test_module"] = types.ModuleType("taper_test_module")
    sys.modules["taper_test_module"].k = [0.0]

    def read():
        import taper_test_module as m
        m.k[0] += 1
        return m.k[0]
    return read, nothing


@source
def of_a_list_used_up_inside():
    a = [float(i) for i in range(30)]
    return lambda: a.pop(), nothing


@source
def of_a_dict_set_inside():
    a = {}
    return lambda: a.setdefault(len(a), len(a) * 1.0), nothing


@source
def of_a_property_counted_inside():
    k = [0.0]

    class Holder:
        @property
        def value(self):
            k[0] += 1
            return k[0]
    holder = Holder()
    return lambda: holder.value, nothing


@source
def of_slots_counted_inside():
    a = Slots()
    a.k = 0.0

    def read():
        a.k += 1
        return a.k
    return read, nothing


# ---- Flags ----
def flag(name, read, change, restore):
    def made():
        cleanup.append(restore)
        return read, change
    made.__name__ = name
    return source(made)


flag("num_threads", lambda: torch.get_num_threads(), lambda: torch.set_num_threads(3 - torch.get_num_threads()), lambda: torch.set_num_threads(2))
flag("deterministic", lambda: 2.0 if torch.are_deterministic_algorithms_enabled() else 3.0, lambda: torch.use_deterministic_algorithms(not torch.are_deterministic_algorithms_enabled()),
     lambda: torch.use_deterministic_algorithms(False))
flag("default_dtype", lambda: 2.0 if torch.get_default_dtype() == torch.float32 else 3.0,
     lambda: torch.set_default_dtype(torch.float64 if torch.get_default_dtype() == torch.float32 else torch.float32), lambda: torch.set_default_dtype(torch.float32))
flag("default_dtype_of_new_tensors", lambda: torch.ones(1).element_size() * torch.zeros(1).add(1), lambda: torch.set_default_dtype(torch.float64 if torch.get_default_dtype() == torch.float32 else torch.float32),
     lambda: torch.set_default_dtype(torch.float32))
flag("grad_mode", lambda: 2.0 if torch.is_grad_enabled() else 3.0, lambda: torch.set_grad_enabled(not torch.is_grad_enabled()), lambda: torch.set_grad_enabled(True))
flag("grad_mode_set_inside", lambda: (torch.set_grad_enabled(not torch.is_grad_enabled()), 2.0 if torch.is_grad_enabled() else 3.0)[1], nothing, lambda: torch.set_grad_enabled(True))
flag("autocast", lambda: 2.0 if torch.is_autocast_enabled("cpu") else 3.0, lambda: torch.set_autocast_enabled("cpu", not torch.is_autocast_enabled("cpu")), lambda: torch.set_autocast_enabled("cpu", False))
flag("autocast_dtype", lambda: 2.0 if torch.get_autocast_dtype("cpu") == torch.bfloat16 else 3.0,
     lambda: torch.set_autocast_dtype("cpu", torch.float16 if torch.get_autocast_dtype("cpu") == torch.bfloat16 else torch.bfloat16), lambda: torch.set_autocast_dtype("cpu", torch.bfloat16))
flag("autocast_cache", lambda: 2.0 if torch.is_autocast_cache_enabled() else 3.0, lambda: torch.set_autocast_cache_enabled(not torch.is_autocast_cache_enabled()), lambda: torch.set_autocast_cache_enabled(True))
flag("cudnn_benchmark", lambda: 2.0 if torch.backends.cudnn.benchmark else 3.0, lambda: setattr(torch.backends.cudnn, "benchmark", not torch.backends.cudnn.benchmark),
     lambda: setattr(torch.backends.cudnn, "benchmark", False))
flag("allow_tf32", lambda: 2.0 if torch.backends.cuda.matmul.allow_tf32 else 3.0, lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", not torch.backends.cuda.matmul.allow_tf32),
     lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", False))
flag("matmul_precision", lambda: len(torch.get_float32_matmul_precision()), lambda: torch.set_float32_matmul_precision("high" if torch.get_float32_matmul_precision() == "highest" else "highest"),
     lambda: torch.set_float32_matmul_precision("highest"))
flag("anomaly", lambda: 2.0 if torch.is_anomaly_enabled() else 3.0, lambda: torch.autograd.set_detect_anomaly(not torch.is_anomaly_enabled()), lambda: torch.autograd.set_detect_anomaly(False))
flag("warn_always", lambda: 2.0 if torch.is_warn_always_enabled() else 3.0, lambda: torch.set_warn_always(not torch.is_warn_always_enabled()), lambda: torch.set_warn_always(False))
flag("inference_mode", lambda: 2.0 if torch.is_inference_mode_enabled() else 3.0, nothing, nothing)
flag("debug_of_dynamo", lambda: 2.0 if torch._dynamo.config.verbose else 3.0, lambda: setattr(torch._dynamo.config, "verbose", not torch._dynamo.config.verbose), lambda: setattr(torch._dynamo.config, "verbose", False))


def reset():
    """Everything as it was before the first program."""
    global some_global
    while cleanup:
        cleanup.pop()()
    some_global, some_list[:] = 1.0, [1.0]
    sys.modules.pop("taper_test_module", None)
    os.environ.pop("TAPER_TEST_K", None)
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    torch.set_num_threads(2)
