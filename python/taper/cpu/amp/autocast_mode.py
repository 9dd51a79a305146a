"""torch.cpu.amp.autocast."""

import warnings

from taper.amp import autocast_mode
from taper._C import bfloat16

__all__ = ["autocast"]


class autocast(autocast_mode.autocast):
    """torch.autocast('cpu')."""

    def __init__(self, enabled=True, dtype=bfloat16, cache_enabled=True):
        warnings.warn(
            "`torch.cpu.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cpu', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)
