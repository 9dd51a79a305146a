"""torch.cuda: NVIDIA's GPUs. This build has none: is_available() says so, what asks for a GPU raises PyTorch's error."""
from taper._absent import (StreamContext, device_count, empty_cache, get_arch_list, get_rng_state_all, guard_class, is_available, is_bf16_supported,  # noqa: F401
                           is_initialized, manual_seed, manual_seed_all, memory_allocated, memory_stats, no_index, refusals, refusing_class, reset_peak_memory_stats,
                           room, set_rng_state_all)
from taper._legacy import cuda_types as _types

globals().update(_types)  # torch.cuda.FloatTensor and its like
globals().update(refusals("cuda", "CUDA", """
    init current_device get_device_name get_device_properties get_device_capability synchronize current_stream default_stream current_blas_handle set_stream
    can_device_access_peer clock_rate power_draw temperature utilization memory_usage device_memory_used mem_get_info get_rng_state set_rng_state
    get_per_process_memory_fraction initial_seed seed seed_all list_gpu_processes make_graphed_callables graph_pool_handle cudart
    caching_allocator_alloc caching_allocator_delete change_current_allocator get_allocator_backend memory_summary get_sync_debug_mode set_sync_debug_mode
    get_stream_from_external use_mem_pool current_solver_handle"""))

Stream = refusing_class("Stream", "CUDA", "Work on a GPU, in order.")
ExternalStream = refusing_class("ExternalStream", "CUDA", "A stream that another library made.")
Event = refusing_class("Event", "CUDA", "A point in a stream.")
CUDAGraph = refusing_class("CUDAGraph", "CUDA", "Calls recorded once and replayed.")
graph = refusing_class("graph", "CUDA", "Records calls into a CUDAGraph.")
MemPool = refusing_class("MemPool", "CUDA", "A part of the GPU's memory.")
CUDAPluggableAllocator = refusing_class("CUDAPluggableAllocator", "CUDA", "An allocator from a library.")
device = guard_class("device", "CUDA", "Makes a GPU the current one within a `with`; an index below zero does nothing.")
has_half, has_magma = True, False
default_generators = ()


class OutOfMemoryError(RuntimeError):
    """The GPU's memory is used up."""


class CudaError(RuntimeError):
    """An error of the CUDA runtime."""


class DeferredCudaCallError(Exception):
    """A call that waited for CUDA failed."""


class device_of(device):
    """Makes the GPU of a tensor the current one; a tensor on the CPU does nothing."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def stream(stream):
    return StreamContext(stream)


def is_current_stream_capturing():
    return False


def is_tf32_supported():
    return False


def set_device(device):
    """Makes a GPU the current one; an index below zero does nothing."""
    if not no_index(device):
        current_device()  # noqa: F821  (raises)


def get_gencode_flags():
    return ""


max_memory_allocated = memory_reserved = max_memory_reserved = memory_cached = max_memory_cached = memory_allocated


memory_stats_as_nested_dict = host_memory_stats = memory_stats


def memory_snapshot(mempool_id=None):
    return []


reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = reset_peak_memory_stats


def ipc_collect():
    """Nothing to collect without a GPU."""


def set_per_process_memory_fraction(fraction, device=None):
    """Memory that is not there needs no limit."""


__getattr__ = room("cuda", frozenset("amp comm graphs memory nccl nvtx profiler random streams".split()))
