"""What lies outside of the program's objects: caches, files, settings, frames; and state that the call itself changes."""

import datetime
import decimal
import functools
import gc
import io
import locale
import os
import secrets
import string
import struct
import sys
import tempfile
import threading
import time
import types
import uuid

import numpy as np
import taper as torch
from state.base import Box, Slots, cleanup, nothing, source

some_global = 1.0


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

    return lambda: of_files.__globals__["some_global"], change


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
    return (
        lambda: (
            1.0
            if uuid.uuid4() != uuid.uuid4() and secrets.token_bytes(4) is not None and os.urandom(2) and os.getpid()
            else 2.0
        ),
        nothing,
    )


@source
def of_numpy_settings():
    before = np.get_printoptions()["precision"]
    cleanup.append(lambda: np.set_printoptions(precision=before))
    return lambda: np.get_printoptions()["precision"], lambda: np.set_printoptions(
        precision=np.get_printoptions()["precision"] + 1
    )


@source
def of_numpy_errors():
    before = np.geterr()
    cleanup.append(lambda: np.seterr(**before))
    return lambda: 1.0 if np.geterr()["divide"] == "warn" else 2.0, lambda: np.seterr(
        divide="ignore" if np.geterr()["divide"] == "warn" else "warn"
    )


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


@source
def of_the_package_counted_inside():
    torch.counted_inside = torch.nn.functional.counted_inside = 0.0
    cleanup.append(lambda: (delattr(torch, "counted_inside"), delattr(torch.nn.functional, "counted_inside")))

    def read():
        torch.counted_inside += 1
        torch.nn.functional.counted_inside += 2
        return torch.counted_inside + torch.nn.functional.counted_inside

    return read, nothing


@source
def of_a_class_of_the_package_counted_inside():
    torch.nn.Linear.counted_inside = 0.0
    cleanup.append(lambda: delattr(torch.nn.Linear, "counted_inside"))

    def read():
        torch.nn.Linear.counted_inside += 1
        return torch.nn.Linear.counted_inside

    return read, nothing
