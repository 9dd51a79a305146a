"""Objects of C that hide what they hold."""

import abc
import array
import collections
import contextvars
import ctypes
import functools
import gc
import inspect
import itertools
import operator
import pickle
import queue
import threading
import types
import weakref

import numpy as np
import taper as torch
from state.base import Box, nothing, source


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
