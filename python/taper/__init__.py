"""PyTorch's face on Taper's C library: tensors, operators, automatic differentiation."""
from taper import _C

globals().update(_C._namespace("torch"))
from taper._C import *  # noqa: E402,F401,F403  (types and settings; dtypes after the operators: torch.bool is a dtype, and an operator too)
from taper._C import Tensor  # noqa: E402,F401

# The version of PyTorch whose names and behaviour these are; scripts compare it. Taper's own is torch.version.taper.
__version__ = "2.15.0+taper"

from taper._toplevel import *  # noqa: E402,F401,F403
from taper._info import finfo, iinfo  # noqa: E402,F401
from taper._tensor import asarray, from_dlpack  # noqa: E402,F401
from taper._tensor_str import get_printoptions, printoptions, set_printoptions  # noqa: E402,F401
from taper._legacy import *  # noqa: E402,F401,F403
from taper.storage import TypedStorage, UntypedStorage  # noqa: E402,F401
from taper.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: E402,F401
from taper import autograd, backends, cuda, fft, functional, linalg, nn, overrides, random, return_types, special, testing, version  # noqa: E402,F401


def __getattr__(name):  # what few programs use is loaded when they do
    from importlib import import_module
    if name in ("func", "signal", "utils"):
        return import_module("taper." + name)
    if name == "vmap":
        return import_module("taper._vmap").vmap
    raise AttributeError(f"module 'torch' has no attribute '{name}'")
