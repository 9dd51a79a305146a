"""torch.cuda.amp.autocast, custom_fwd and custom_bwd."""

import functools
import warnings

from taper.amp import autocast_mode
from taper.amp.autocast_mode import _cast  # noqa: F401
from taper._C import float16

__all__ = ["autocast", "custom_fwd", "custom_bwd"]


def _old(name):
    warnings.warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}(args..., device_type='cuda')` "
        "instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(autocast_mode.autocast):
    """torch.autocast('cuda')."""

    def __init__(self, enabled=True, dtype=float16, cache_enabled=True):
        warnings.warn(
            "`torch.cuda.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cuda', args...)` "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def custom_fwd(fwd=None, *, cast_inputs=None):
    """torch.amp.custom_fwd for 'cuda'."""
    _old("custom_fwd")
    return functools.partial(autocast_mode.custom_fwd, device_type="cuda")(fwd=fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd=None):
    """torch.amp.custom_bwd for 'cuda'."""
    _old("custom_bwd")
    return functools.partial(autocast_mode.custom_bwd, device_type="cuda")(bwd=bwd)
