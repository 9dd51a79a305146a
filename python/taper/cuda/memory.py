"""torch.cuda.memory: the memory of GPUs."""

from taper import _C
from taper._gpu.devices import index_of, need
from taper._gpu.graphs import MemPool, use_mem_pool  # noqa: F401
from taper._gpu.memory import Memory
from taper._hook import NotCovered

_memory = Memory("cuda", "CUDA")
globals().update(_memory.functions())


def memory_summary(device=None, abbreviated=False):
    """The counters as a table."""
    need("cuda", "CUDA")
    return _C._gpu_summary("cuda", index_of("cuda", device), abbreviated)


def _now(name, old):
    """A function under its older name."""

    def function(device=None):
        import warnings

        warnings.warn(f"`torch.cuda.{old}` has been renamed to `torch.cuda.{name}`", FutureWarning, stacklevel=2)
        return getattr(_memory, name)(device)

    function.__name__ = function.__qualname__ = old
    return function


memory_cached, max_memory_cached = (
    _now("memory_reserved", "memory_cached"),
    _now("max_memory_reserved", "max_memory_cached"),
)


def reset_max_memory_allocated(device=None):
    """The older name of reset_peak_memory_stats."""
    import warnings

    warnings.warn(
        "torch.cuda.reset_max_memory_allocated now calls torch.cuda.reset_peak_memory_stats, which resets /all/ peak "
        "memory stats.",
        FutureWarning,
        stacklevel=2,
    )
    _memory.reset_peak_memory_stats(device)


def reset_max_memory_cached(device=None):
    """The older name of reset_peak_memory_stats."""
    import warnings

    warnings.warn(
        "torch.cuda.reset_max_memory_cached now calls torch.cuda.reset_peak_memory_stats, which resets /all/ peak "
        "memory stats.",
        FutureWarning,
        stacklevel=2,
    )
    _memory.reset_peak_memory_stats(device)


def caching_allocator_alloc(size, device=None, stream=None):
    """A block of device memory, as an address; for other libraries."""
    need("cuda", "CUDA")
    index = index_of("cuda", device)
    handle = _C._stream_current("cuda", index) if stream is None else getattr(stream, "cuda_stream", stream)
    if not isinstance(handle, int):
        raise TypeError(
            "Invalid type for stream argument, must be `torch.cuda.Stream` or `int` representing a pointer to a "
            "existing stream"
        )
    return _C._gpu_alloc("cuda", index, size, handle)


def caching_allocator_delete(mem_ptr):
    """Gives such a block back."""
    _C._gpu_free(mem_ptr)


def get_allocator_backend():
    """The allocator's name: the one there is."""
    return "native"


def host_memory_stats():
    """Pinned memory is not counted: no counters."""
    from collections import OrderedDict

    return OrderedDict()


host_memory_stats_as_nested_dict = dict


def reset_peak_host_memory_stats():
    """Pinned memory is not counted."""


def reset_accumulated_host_memory_stats():
    """Pinned memory is not counted."""


class CUDAPluggableAllocator:
    """An allocator from a library. Taper's own is the one there is."""

    def __init__(self, path_to_so_file, alloc_fn_name, free_fn_name):
        raise NotCovered("torch.cuda.memory.CUDAPluggableAllocator")


def change_current_allocator(allocator):
    raise NotCovered("torch.cuda.memory.change_current_allocator")


_record_memory_history, _snapshot, _dump_snapshot = (
    _memory._record_memory_history,
    _memory._snapshot,
    _memory._dump_snapshot,
)
