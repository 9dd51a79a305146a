"""torch.xpu: Intel's GPUs. This build has none: is_available() says so, what asks for a GPU raises PyTorch's error."""
from taper._absent import (StreamContext, device_count, empty_cache, get_arch_list, get_rng_state_all, guard_class, is_available, is_bf16_supported,  # noqa: F401
                           is_initialized, manual_seed, manual_seed_all, memory_allocated, memory_stats, no_index, refusals, refusing_class, reset_peak_memory_stats,
                           set_rng_state_all)

globals().update(refusals("xpu", "XPU", """
    init current_device get_device_name get_device_properties get_device_capability synchronize current_stream set_stream can_device_access_peer mem_get_info
    get_rng_state set_rng_state initial_seed seed seed_all get_stream_from_external memory_summary"""))

Stream = refusing_class("Stream", "XPU", "Work on a GPU, in order.")
Event = refusing_class("Event", "XPU", "A point in a stream.")
device = guard_class("device", "XPU", "Makes a GPU the current one within a `with`; an index below zero does nothing.")
default_generators = ()


class device_of(device):
    """Makes the GPU of a tensor the current one; a tensor on the CPU does nothing."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.device.type == "xpu" else -1)


def stream(stream):
    return StreamContext(stream)


def set_device(device):
    """Makes a GPU the current one; an index below zero does nothing."""
    if not no_index(device):
        current_device()  # noqa: F821  (raises)


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated
