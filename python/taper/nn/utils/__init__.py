"""torch.nn.utils: helpers around modules. What few programs use is loaded at its first use."""

from taper.nn.utils import rnn  # noqa: F401
from taper.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)  # noqa: F401
from taper.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters  # noqa: F401

# At once: the functions have their modules' names.
from taper.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm  # noqa: F401
from taper.nn.utils.weight_norm import remove_weight_norm, weight_norm  # noqa: F401

_LATER = {
    "fusion": "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights",
    "init": "skip_init",
    "memory_format": "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format",
    "parametrizations": "",
    "parametrize": "",
    "prune": "",
    "stateless": "",
}

__all__ = [  # noqa: F822  (some are loaded at their first use)
    "rnn",
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "vector_to_parameters",
    "remove_spectral_norm",
    "spectral_norm",
    "remove_weight_norm",
    "weight_norm",
    "parametrizations",
    "parametrize",
    "stateless",
    *" ".join(_LATER.values()).split(),
]


def __getattr__(name):
    from importlib import import_module

    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module("taper.nn.utils." + module), name)
    if name in _LATER:
        return import_module("taper.nn.utils." + name)
    raise AttributeError(f"module 'torch.nn.utils' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_LATER, *" ".join(_LATER.values()).split()})
