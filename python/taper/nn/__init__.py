"""torch.nn: what networks are made of. Layers are loaded at first use."""

from taper.nn import functional, init, parameter, utils  # noqa: F401
from taper.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter  # noqa: F401
from taper.nn import modules  # noqa: F401
from taper.nn.modules.module import Module  # noqa: F401

__all__ = [
    *modules.__all__,
    "Buffer",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",
    "functional",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
]


def __getattr__(name):
    if name in modules._files:
        value = globals()[name] = getattr(modules, name)
        return value
    if name in ("DataParallel", "attention", "grad", "parallel"):
        from importlib import import_module

        if name in ("attention", "grad"):
            return import_module("taper.nn." + name)
        parallel = import_module("taper.nn.parallel")
        return parallel if name == "parallel" else parallel.DataParallel
    raise AttributeError(f"module 'torch.nn' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *__all__})
