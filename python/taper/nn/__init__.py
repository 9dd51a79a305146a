"""torch.nn: what networks are made of."""
from taper.nn import functional, init, parameter, utils  # noqa: F401
from taper.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter  # noqa: F401
from taper.nn.modules import *  # noqa: F401,F403
from taper.nn import modules  # noqa: F401


def __getattr__(name):
    """What few programs use is loaded at its first use."""
    if name in ("DataParallel", "parallel"):
        from importlib import import_module
        parallel = import_module("taper.nn.parallel")
        return parallel if name == "parallel" else parallel.DataParallel
    raise AttributeError(f"module 'torch.nn' has no attribute '{name}'")
