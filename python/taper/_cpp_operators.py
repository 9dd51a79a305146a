"""Operators and classes that C++ extensions register with TORCH_LIBRARY: found in a shared library, and put under
torch.ops and torch.classes."""

import ctypes
import os
import sys

_seen = set()  # real paths of shared libraries that were looked into
_kept = []  # libraries and their registrations stay


def _register(entries):
    from taper.library import Library

    libraries = {}

    def library(space):
        if space not in libraries:
            libraries[space] = Library(space, "FRAGMENT")
        return libraries[space]

    for space, name, schema, _, _ in entries:
        if schema is not None:
            library(space).define(name + schema)
    for space, name, _, key, function in entries:
        if function is not None:
            library(space).impl(name, _by_position(f"{space}::{name}", function), key)
    _kept.append(libraries)


def _by_position(qualname, function):
    """A C++ function as a kernel: it takes all arguments of the schema, by their places."""

    def kernel(*args, **kwargs):
        from taper.library import _operator

        operator = _operator(qualname)
        if kwargs or len(args) != len(operator.parsed().arguments):
            args, named = operator.bound(args, kwargs)
            args = (*args, *named.values())
        return function(*args)

    return kernel


def _register_classes(entries):
    from taper._classes import register

    for name, doc, members in entries:
        register(name, doc, members)


def load(path):
    """Opens the shared library at path and registers the operators and classes in it."""
    real = os.path.realpath(path)
    if real in _seen:
        return
    opened = ctypes.PyDLL(real)
    _seen.add(real)
    _kept.append(opened)
    for name, register in (("taper_cpp_classes", _register_classes), ("taper_cpp_operators", _register)):
        list_entries = getattr(opened, name, None)
        if list_entries is not None:
            list_entries.restype = ctypes.py_object
            register(list_entries())


def look_again():
    """Registers what extension modules have that were imported since the last look. Were there any operators?"""
    found = False
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or not path.endswith((".so", ".pyd")):
            continue
        real = os.path.realpath(path)
        if real not in _seen and "/taper/_C" not in real:
            before = len(_kept)
            load(real)
            found = found or len(_kept) > before + 1
    return found
