"""intel_extension_for_pytorch.xpu: torch.xpu under the extension's name."""

from taper import xpu as _xpu
from taper.intel_extension_for_pytorch.xpu import amp  # noqa: F401


def __getattr__(name):
    if name == "optimize":
        from taper.intel_extension_for_pytorch import optimize

        return optimize
    return getattr(_xpu, name)


def __dir__():
    return sorted({*globals(), *dir(_xpu)})
