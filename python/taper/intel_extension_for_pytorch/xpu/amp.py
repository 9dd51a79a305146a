"""torch.xpu.amp, which the extension added: torch.amp for the device type 'xpu'."""

from taper import amp as _amp
from taper._C import bfloat16


class autocast(_amp.autocast):
    """A region of mixed precision on Intel's GPUs."""

    def __init__(self, enabled=True, dtype=bfloat16, cache_enabled=True):
        super().__init__("xpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """torch.amp.GradScaler for Intel's GPUs."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        super().__init__("xpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
