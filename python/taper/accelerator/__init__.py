"""torch.accelerator: whichever accelerator there is. Here there is none."""
from taper._absent import device_count, empty_cache, is_available, memory_allocated, memory_stats, reset_peak_memory_stats

__all__ = ["current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count", "device_index", "empty_cache", "get_memory_info",
           "is_available", "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats", "reset_peak_memory_stats",
           "set_device_idx", "set_device_index", "set_stream", "synchronize"]


def current_accelerator(check_available=False):
    """The accelerator's device, or None."""
    return None


def _missing(*args, **kwargs):
    raise RuntimeError("Cannot access accelerator device when none is available.")


current_device_index = current_device_idx = set_device_index = set_device_idx = current_stream = set_stream = synchronize = get_memory_info = _missing


class device_index:
    """Makes a device the current one within a `with`; None does nothing."""

    def __init__(self, device, /):
        self.idx = device

    def __enter__(self):
        if self.idx is not None:
            _missing()

    def __exit__(self, *error):
        return False


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


reset_accumulated_memory_stats = reset_peak_memory_stats
