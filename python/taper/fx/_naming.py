"""What functions and types are called in printed graphs and in generated code: PyTorch's names, wherever Taper keeps
the thing."""

import builtins
import operator
import types

import taper
from taper import _C
from taper._c_names import OF_NN
from taper.fx import _functional

# Functions that PyTorch keeps in torch.functional, though programs find them elsewhere.
_FUNCTIONAL = frozenset(
    """
    atleast_1d atleast_2d atleast_3d align_tensors block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist
    chain_matmul einsum istft lu norm
    meshgrid pca_lowrank split stft svd_lowrank tensordot unique unique_consecutive unravel_index""".split()
)


def _torch_name(func, name):
    """Where PyTorch has a function of Taper's; None for other people's functions."""
    from taper.nn import functional as F

    in_nn = "log_sigmoid" if name == "logsigmoid" else name
    if in_nn in OF_NN and name not in _functional.forms and getattr(F, name, None) is func:
        return "torch._C._nn." + in_nn
    if name in _FUNCTIONAL and getattr(taper, name, None) is func:
        return "torch.functional." + name
    if name in _functional.forms and getattr(F, name, None) is func:  # one operator for both of PyTorch's
        return "torch.nn.functional." + name
    if getattr(taper, name, None) is func:
        return "torch." + name
    if getattr(F, name, None) is func:
        return "torch.nn.functional." + name
    return None


def module_of(thing):
    module = getattr(thing, "__module__", None) or "torch"
    if module.startswith("taper.torchvision"):
        return module[len("taper.") :]
    return "torch" + module[len("taper") :] if module == "taper" or module.startswith("taper.") else module


def qualified(func):
    """The dotted name by which generated code finds a function."""
    name = getattr(func, "__name__", None)
    if name is None:
        raise RuntimeError(f"Could not find a name for {func!r}")
    if getattr(builtins, name, None) is func:
        return name
    known = _torch_name(func, name)
    if known:
        return known
    if module_of(func).startswith("torch._ops."):  # operators, and their overloads
        return module_of(func).replace("torch._ops.", "torch.ops.", 1) + "." + name
    if (
        isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType, _C.Method))
        and getattr(taper.Tensor, name, None) is func
    ):
        return "torch.Tensor." + name
    if name == "<lambda>":
        name = "lambda"
    return f"{module_of(func)}.{name}"


def printed(target):
    """A target in a graph's text."""
    if isinstance(target, str):
        return target
    name = getattr(target, "__name__", None)
    if name is None:
        return str(target)
    if getattr(builtins, name, None) is target:
        return "builtins." + name
    if getattr(operator, name, None) is target:
        return "operator." + name
    return qualified(target)


def type_text(kind):
    """An annotation in a graph's text."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        return kind.__qualname__ if kind.__module__ == "builtins" else f"{module_of(kind)}.{kind.__qualname__}"
    return kind.__name__ if isinstance(kind, types.FunctionType) else repr(kind)
