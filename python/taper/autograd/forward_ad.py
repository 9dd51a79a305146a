"""torch.autograd.forward_ad: tangents beside tensors. The tape runs backward only, so tangents are worked out at unpack_dual by differentiating a
backward; torch.func.jvp is the direct way."""
from collections import namedtuple

from taper import _C
from taper.autograd.grad_mode import _DecoratorContextManager

__all__ = ["UnpackedDualTensor", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual", "dual_level"]

UnpackedDualTensor = namedtuple("UnpackedDualTensor", ["primal", "tangent"])
_levels = []  # per level: the leaves made dual, with their tangents


def __getattr__(name):
    if name == "_current_level":  # -1 outside of all of them
        return len(_levels) - 1
    raise AttributeError(f"module 'torch.autograd.forward_ad' has no attribute '{name}'")


def enter_dual_level():
    """Opens a level; there is one at a time, as in PyTorch."""
    if _levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _levels.append([])
    return 0


def exit_dual_level(*, level=None):
    """Closes the level and forgets its tangents."""
    if not _levels:
        raise RuntimeError("Trying to exit a forward AD level but no level is active")
    _levels.pop()


class dual_level(_DecoratorContextManager):
    """A level for a block."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *error):
        exit_dual_level()


def make_dual(tensor, tangent, *, level=None):
    """The tensor with a tangent, which results that are computed from it have too."""
    if not _levels:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.")
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if not (tangent.is_floating_point() or tangent.is_complex()):
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    dual = tensor.view_as(tensor) if tensor.requires_grad else tensor.detach()
    if not tensor.requires_grad:
        dual.requires_grad = True
    _levels[-1].append((dual, tangent))
    return dual


def unpack_dual(tensor, *, level=None):
    """The tensor and its tangent, None if it has none."""
    if not _levels:
        return UnpackedDualTensor(tensor, None)
    for dual, tangent in _levels[-1]:
        if dual is tensor:
            return UnpackedDualTensor(tensor.detach(), tangent)
    return UnpackedDualTensor(tensor.detach(), _tangent(tensor))


def _tangent(tensor):
    from taper import zeros_like
    if not tensor.requires_grad or not _levels[-1]:
        return None
    duals, tangents = zip(*_levels[-1])
    v = zeros_like(tensor)
    v.requires_grad = True
    grads = _C._gradients((tensor,), duals, (v,), True, True, True, False)
    pairs = [(g, t) for g, t in zip(grads, tangents) if g is not None]
    if not pairs:
        return None
    linear = [(g, t) for g, t in pairs if g.requires_grad]
    if not linear:
        return zeros_like(tensor)
    return _C._gradients(tuple(g for g, _ in linear), (v,), tuple(t for _, t in linear), True, False, True, True)[0]
