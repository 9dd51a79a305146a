"""Gradients kept within bounds: by their joint norm, or element by element."""

from types import GeneratorType
from warnings import warn

from taper import _C
from taper._C import Tensor
from taper.autograd.grad_mode import no_grad as _no_grad


def _as_list(tensors):
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters):
    gradients = [parameter.grad for parameter in parameters]
    return [gradient for gradient in gradients if gradient is not None]


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all elements of the tensors as one vector."""
    norm_type, tensors = float(norm_type), _as_list(tensors)
    if any(hasattr(tensor, "_spec") for tensor in tensors):
        from taper.distributed.tensor._dtensor import total_norm

        total = total_norm(tensors, norm_type)
    else:
        total = _C._total_norm(tensors, norm_type)
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scales the gradients by max_norm / (total_norm + 1e-6) where that is below one."""
    gradients = _gradients(_as_list(parameters))
    if gradients:
        _C._clip_to_norm(gradients, float(max_norm), total_norm)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales the gradients so that their joint norm is at most max_norm, and returns the norm they had."""
    max_norm = float(max_norm)
    given, parameters = parameters, _as_list(parameters)
    if not parameters and isinstance(given, GeneratorType):
        warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    gradients = _gradients(parameters)
    total = get_total_norm(gradients, norm_type, error_if_nonfinite)
    if gradients:
        _C._clip_to_norm(gradients, max_norm, total)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The old name of clip_grad_norm_."""
    warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Moves every element of the gradients into [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    with _no_grad():
        for gradient in _gradients(_as_list(parameters)):
            gradient.clamp_(-clip_value, clip_value)
