"""torch.accelerator: whichever accelerator there is, CUDA's before others."""

from taper import _C
from taper._gpu.devices import index_of as _index_of

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def _kind():
    """Its type, or None."""
    return next((kind for kind in ("cuda", "xpu") if _C._gpu_count(kind)), None)


def _needed():
    kind = _kind()
    if kind is None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return kind


def _module_of(kind):
    from importlib import import_module

    return import_module("taper." + kind)


def is_available():
    """Is there one?"""
    return _kind() is not None


def device_count():
    kind = _kind()
    return _C._gpu_count(kind) if kind else 0


def current_accelerator(check_available=False):
    """The accelerator's device, without an index, or None."""
    kind = _kind()
    return _C.device(kind) if kind else None


def current_device_index():
    """The index of the thread's current device."""
    return _C._gpu_current(_needed())


def set_device_index(device, /):
    """Makes a device the thread's current one."""
    kind = _needed()
    index = _index_of(kind, device, current=False)
    if index >= 0:
        _C._gpu_set_current(kind, index)


current_device_idx, set_device_idx = current_device_index, set_device_index


def current_stream(device=None, /):
    """The thread's current stream on a device."""
    from taper._gpu.streams import current_stream

    return current_stream(_needed(), device)


def set_stream(stream):
    """Makes a stream the thread's current one."""
    from taper._gpu.streams import set_stream

    _needed()
    set_stream(stream)


def synchronize(device=None, /):
    """Waits for all work on a device."""
    kind = _needed()
    _C._gpu_synchronize(kind, _index_of(kind, device))


def get_device_capability(device=None, /):
    """What the device computes with."""
    _needed()
    return {
        "supported_dtypes": {
            _C.bool,
            _C.uint8,
            _C.int8,
            _C.int16,
            _C.int32,
            _C.int64,
            _C.float16,
            _C.bfloat16,
            _C.float32,
            _C.float64,
            _C.complex64,
            _C.complex128,
        }
    }


class device_index:
    """Makes a device the current one within a `with`; None does nothing."""

    def __init__(self, device, /):
        self.idx, self.prev_idx = device, -1

    def __enter__(self):
        if self.idx is not None:
            self.prev_idx = current_device_index()
            set_device_index(self.idx)

    def __exit__(self, *error):
        if self.idx is not None:
            set_device_index(self.prev_idx)
        return False


def _of_memory(name, without):
    """A function of the accelerator's memory; `without` is its answer where there is none."""

    def function(device_index=None, /):
        kind = _kind()
        return getattr(_module_of(kind), name)(device_index) if kind else without()

    function.__name__ = function.__qualname__ = name
    return function


memory_allocated, max_memory_allocated, memory_reserved, max_memory_reserved = (
    _of_memory(name, int)
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
)
memory_stats = _of_memory("memory_stats", dict)
reset_peak_memory_stats, reset_accumulated_memory_stats = (
    _of_memory(name, lambda: None) for name in ("reset_peak_memory_stats", "reset_accumulated_memory_stats")
)


def __getattr__(name):
    if name in ("graphs", "memory", "random"):
        from importlib import import_module

        return import_module("taper.accelerator." + name)
    if name == "Graph":
        from taper.accelerator.graphs import Graph

        return Graph
    raise AttributeError(f"module 'torch.accelerator' has no attribute '{name}'")


def get_memory_info(device_index=None, /):
    """(free, total) bytes of the device."""
    kind = _needed()
    return _C._gpu_memory_info(kind, _index_of(kind, device_index))


def empty_cache():
    """Gives kept memory back to the devices."""
    kind = _kind()
    if kind:
        _module_of(kind).empty_cache()


def empty_host_cache():
    """Gives kept pinned memory back."""
    if _kind():
        _C._pinned_trim()
