"""torch.nn.modules: the layers, by kind. A file is loaded with the first of its layers that is asked for."""

from taper.nn.modules._files import FILES as _files
from taper.nn.modules.module import Module  # noqa: F401

# What is written by hand and has no stanza.
_files.update(
    dict.fromkeys(
        ("Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"), "container"
    )
)
_files.update(
    dict.fromkeys(
        (f"Lazy{kind}{n}d" for kind in ("Conv", "ConvTranspose", "BatchNorm", "InstanceNorm") for n in (1, 2, 3)),
        "_lazy_layers",
    ),
    LazyLinear="_lazy_layers",
)
_files["LinearCrossEntropyOptions"] = "linear_cross_entropy_options"
del _files["NonDynamicallyQuantizableLinear"]  # known to its file alone, as in PyTorch
__all__ = [*_files, "Module"]


def __getattr__(name):
    from importlib import import_module

    if name in _files:
        value = globals()[name] = getattr(import_module("taper.nn.modules." + _files[name]), name)
        return value
    if not name.startswith("__"):
        try:
            return import_module("taper.nn.modules." + name)
        except ModuleNotFoundError:
            pass
    raise AttributeError(f"module 'torch.nn.modules' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_files})
