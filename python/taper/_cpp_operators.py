"""Operators that C++ extensions register with TORCH_LIBRARY: found in a shared library, and put under torch.ops."""

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
            library(space).impl(name, function, key)
    _kept.append(libraries)


def load(path):
    """Opens the shared library at path and registers the operators in it."""
    real = os.path.realpath(path)
    if real in _seen:
        return
    opened = ctypes.PyDLL(real)
    _seen.add(real)
    _kept.append(opened)
    try:
        list_operators = opened.taper_cpp_operators
    except AttributeError:  # it registers none
        return
    list_operators.restype = ctypes.py_object
    _register(list_operators())


def look_again():
    """Registers the operators of extension modules that were imported since the last look. Were there any?"""
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
