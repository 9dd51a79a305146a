"""torch.accelerator: whichever accelerator there is. Here there is none."""

__all__ = ["current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count", "device_index", "empty_cache", "get_memory_info",
           "is_available", "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats", "reset_peak_memory_stats",
           "set_device_idx", "set_device_index", "set_stream", "synchronize"]


def current_accelerator(check_available=False):
    """The accelerator's device, or None."""
    return None


def is_available():
    return False


def device_count():
    return 0


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


def empty_cache():
    """Gives kept memory back; there is none here."""


def memory_allocated(device_index=None, /):
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def memory_stats(device_index=None, /):
    return {}


def reset_peak_memory_stats(device_index=None, /):
    """Nothing to forget without a device."""


reset_accumulated_memory_stats = reset_peak_memory_stats
