"""torch.nn.init: how parameters begin. Each function fills a tensor in place, without a tape, from PyTorch's seeded
stream."""

import math as _math
import warnings as _warnings

from taper import _C
from taper.autograd.grad_mode import no_grad as _no_grad


def calculate_gain(nonlinearity, param=None):
    """The factor by which a nonlinearity's inputs should be wider for its outputs to keep their spread: the `gain`
    line of the operator's stanza."""
    if nonlinearity == "leaky_relu" and param is not None:
        if isinstance(param, bool) or not isinstance(param, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return _C._init_gain(nonlinearity, param)
    gain = _C._init_gain(nonlinearity)
    if gain is None:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return 1 if gain == 1 else gain


def _calculate_fan_in_and_fan_out(tensor):
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = _math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor, mode):
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode.lower() == "fan_out"]


def _no_grad_uniform_(tensor, a, b, generator=None):
    return uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor, mean, std, generator=None):
    return normal_(tensor, mean, std, generator)


def _no_grad_fill_(tensor, val):
    return constant_(tensor, val)


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Uniform between a and b."""
    with _no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Normal with the given mean and spread."""
    with _no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Normal, with what falls outside [a, b] drawn again; where little falls inside, uniform draws kept by the
    density's height."""
    if mean < a - 2 * std or mean > b + 2 * std:
        _warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
            "incorrect.",
            stacklevel=2,
        )
    if tensor.is_meta:
        return tensor
    empty_like = _C._functions["empty_like"]
    below = lambda x: (1.0 + _math.erf(x / _math.sqrt(2.0))) / 2.0
    if below((b - mean) / std) - below((a - mean) / std) > 0.3:
        low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()  # as the dtype holds them
        draw = lambda into: into.normal_(mean, std, generator=generator)
        outside = lambda drawn: (drawn < low) | (drawn > high)
    else:
        peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
        draw = lambda into: into.uniform_(a, b, generator=generator)
        height = lambda drawn: drawn.clone().sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        outside = lambda drawn: empty_like(drawn).uniform_(generator=generator).log_().gt(height(drawn))
    with _no_grad():
        again = outside(draw(tensor))
        while again.any():
            drawn = draw(empty_like(tensor))
            tensor.copy_(drawn.where(again, tensor))
            again = again & outside(drawn)
        return tensor


def constant_(tensor, val):
    """Every element val."""
    with _no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    """Every element one."""
    return constant_(tensor, 1.0)


def zeros_(tensor):
    """Every element zero."""
    with _no_grad():
        return tensor.zero_()


def eye_(tensor):
    """The identity matrix."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with _no_grad():
        return tensor.copy_(_C._functions["eye"](*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor, groups=1):
    """Convolution kernels that hand their input through."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.shape[0] // groups
    centre = tuple(n // 2 for n in tensor.shape[2:])
    with _no_grad():
        tensor.zero_()
        for g in range(groups):
            for d in range(min(per_group, tensor.shape[1])):
                tensor[(g * per_group + d, d) + centre] = 1
    return tensor


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Glorot's uniform initialisation."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = _math.sqrt(3.0) * gain * _math.sqrt(2.0 / float(fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Glorot's normal initialisation."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * _math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """He's uniform initialisation."""
    if 0 in tensor.shape:
        _warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    bound = _math.sqrt(3.0) * calculate_gain(nonlinearity, a) / _math.sqrt(_calculate_correct_fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """He's normal initialisation."""
    if 0 in tensor.shape:
        _warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    return normal_(
        tensor, 0, calculate_gain(nonlinearity, a) / _math.sqrt(_calculate_correct_fan(tensor, mode)), generator
    )


def orthogonal_(tensor, gain=1, generator=None):
    """A (semi-)orthogonal matrix from the QR factors of a normal one."""
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, cols = tensor.shape[0], tensor.numel() // tensor.shape[0]
    flat = tensor.new_empty((rows, cols)).normal_(0, 1, generator=generator)
    if rows < cols:
        flat.t_()
    q, r = _C._functions["linalg_qr"](flat)
    q *= r.diag(0).sign()
    if rows < cols:
        q.t_()
    with _no_grad():
        tensor.view_as(q).copy_(q)
        return tensor.mul_(gain)


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normal columns with a share of their elements zero."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, cols = tensor.shape
    zeros = int(_math.ceil(sparsity * rows))
    with _no_grad():
        tensor.normal_(0, std, generator=generator)
        for col in range(cols):
            tensor[_C._functions["randperm"](rows)[:zeros], col] = 0
    return tensor


def _deprecated(function):
    name = function.__name__[:-1]

    def old(*args, **kwargs):
        _warnings.warn(
            f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    old.__name__ = old.__qualname__ = name
    return old


uniform, normal, constant, eye, dirac = map(_deprecated, (uniform_, normal_, constant_, eye_, dirac_))
xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal = map(
    _deprecated, (xavier_uniform_, xavier_normal_, kaiming_uniform_, kaiming_normal_)
)
orthogonal, sparse = map(_deprecated, (orthogonal_, sparse_))
