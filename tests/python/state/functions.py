"""Functions, containers of the library, texts, modules: what guards follow."""

import abc
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import math
import os
import re
import sys
import types
import typing

import numpy as np
from state.base import Box, plain, source


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
    return lambda: a["a"] + a["b"] + sum(a.values()), lambda: a.update("a")


@source
def by_most_common():
    a = collections.Counter("aab")
    return lambda: a.most_common(1)[0][1], lambda: a.update("a")


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


@source
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
        def value(self): ...

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


@plain
def by_names_of_a_function():
    def f():
        pass

    def change():
        f.__name__ += "a"
        f.__qualname__ += "bb"
        f.__module__ = str(f.__module__) + "ccc"

    return lambda: len(f.__name__) + len(f.__qualname__) + len(f.__module__), change


@plain
def by_name_that_getattr_reads():
    def f():
        pass

    def change():
        f.__name__ += "a"

    return lambda: len(getattr(f, "__name__")), change


@plain
def by_doc_of_a_function():
    def f():
        """a"""

    def change():
        f.__doc__ += "a"

    return lambda: len(f.__doc__), change


@plain
def by_doc_that_is_a_list():
    def f():
        pass

    f.__doc__ = [1.0]

    def change():
        f.__doc__[0] += 1

    return lambda: f.__doc__[0], change


@plain
def by_annotations_of_a_function():
    def f(a: int):
        pass

    def change():
        f.__annotations__["b" * len(f.__annotations__)] = float

    return lambda: len(f.__annotations__), change


@plain
def by_annotations_that_were_not_there():
    def f():
        pass

    def change():
        f.__annotations__["b" * len(f.__annotations__)] = float

    return lambda: len(f.__annotations__), change


@plain
def by_an_annotation_that_is_a_list():
    def f(a: [1.0]):
        pass

    def change():
        f.__annotations__["a"][0] += 1

    return lambda: f.__annotations__["a"][0], change


@source
def by_type_hints():
    def f(a: int):
        pass

    def change():
        f.__annotations__["b" * len(f.__annotations__)] = float

    return lambda: len(typing.get_type_hints(f)), change


@plain
def by_defaults_that_are_read():
    def f(a=1.0, *, k=2.0):
        pass

    def change():
        f.__defaults__ = (f.__defaults__[0] + 1,)
        f.__kwdefaults__["k"] += 3

    return lambda: f.__defaults__[0] + f.__kwdefaults__["k"], change


@plain
def by_names_of_a_class():
    class Kind:
        pass

    def change():
        Kind.__name__ += "a"
        Kind.__qualname__ += "bb"

    return lambda: len(Kind.__name__) + len(Kind.__qualname__), change


@plain
def by_name_of_an_object_s_class():
    class Kind:
        pass

    held = Kind()

    def change():
        Kind.__name__ += "a"

    return lambda: len(type(held).__name__) + len(held.__class__.__name__), change


@plain
def by_doc_module_and_annotations_of_a_class():
    class Kind:
        """a"""

        k: int

    def change():
        Kind.__doc__ += "a"
        Kind.__module__ += "bb"
        Kind.__annotations__["k" * len(Kind.__doc__)] = float

    return lambda: len(Kind.__doc__) + len(Kind.__module__) + len(Kind.__annotations__), change


@plain
def by_doc_of_a_property():
    class Kind:
        k = property(lambda self: 1.0, doc="a")

    def change():
        Kind.k.__doc__ += "a"

    return lambda: len(Kind.k.__doc__), change


@source
def by_text_of_a_class():
    class Kind:
        pass

    def change():
        Kind.__qualname__ += "a"

    return lambda: len(str(Kind)) + len(repr([Kind])), change
