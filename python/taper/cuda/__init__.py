"""torch.cuda: NVIDIA's GPUs, or AMD's through HIP. Without one is_available() says so, and what asks for a GPU raises
PyTorch's error."""

from taper import _C
from taper._C import AcceleratorError, OutOfMemoryError  # noqa: F401
from taper._gpu import loaded_later
from taper._gpu.devices import Devices, Properties, guard
from taper._legacy import cuda_storages as _storages
from taper._legacy import cuda_types as _types

globals().update(_types)  # torch.cuda.FloatTensor and its like
globals().update(_storages)
has_half, has_magma = True, False


class _CudaDeviceProperties(Properties):
    """What a GPU is and can do."""

    def __init__(self, about):
        hip = _C._gpu_backend("cuda") == "HIP"
        super().__init__(
            about,
            major=about["major"],
            minor=about["minor"],
            multi_processor_count=about["units"],
            warp_size=about["warp"],
            max_threads_per_multi_processor=about["threads_per_unit"],
            max_threads_per_block=about["max_threads"],
            regs_per_multiprocessor=65536,
            shared_memory_per_block=about["shared"],
            shared_memory_per_block_optin=about["shared_most"],
            shared_memory_per_multiprocessor=about["shared_most"],
            L2_cache_size=about["l2"],
            clock_rate=about["clock_khz"],
            memory_clock_rate=about["memory_clock_khz"],
            memory_bus_width=about["bus_bits"],
            pci_domain_id=about["pci_domain"],
            pci_bus_id=about["pci_bus"],
            pci_device_id=about["pci_device"],
            is_integrated=int(about["integrated"]),
            is_multi_gpu_board=0,
            **{"gcnArchName": about["arch"] if hip else about["name"]},
        )

    def __repr__(self):
        arch = f", gcnArchName='{self.gcnArchName}'" if self.gcnArchName != self.name else ""
        mega = 1024 * 1024
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}{arch}, "
            f"total_memory={self.total_memory // mega}MB, multi_processor_count={self.multi_processor_count}, "
            f"uuid={self.uuid}, pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size // mega}MB)"
        )


class _Cuda(Devices):
    _Properties = _CudaDeviceProperties

    def _bf16(self):
        return _C._gpu_backend("cuda") == "HIP" or self.get_device_capability()[0] >= 8

    def get_device_capability(self, device=None):
        """(major, minor) of the GPU's compute capability."""
        about = self.get_device_properties(device)
        return about.major, about.minor

    def is_tf32_supported(self):
        """Has the current GPU TF32 products?"""
        return self.is_available() and _C._gpu_backend("cuda") == "CUDA" and self.get_device_capability()[0] >= 8

    def can_device_access_peer(self, device, peer_device):
        """Can one GPU read another's memory?"""
        from taper.cuda import _driver

        here, there = self._index(device), self._index(peer_device)
        for index in here, there:
            if not 0 <= index < self.device_count():
                raise AssertionError(
                    f"Invalid peer device id: {index}" if index == there else f"Invalid device id: {index}"
                )
        return _driver.can_access_peer(here, there)

    def get_gencode_flags(self):
        """The options with which a compiler makes kernels for these GPUs."""
        archs = [arch.partition("_")[2] for arch in self.get_arch_list() if arch.startswith("sm_")]
        return " ".join(f"-gencode compute=compute_{arch},code=sm_{arch}" for arch in archs)

    def ipc_collect(self):
        """Nothing is kept for other processes."""

    def current_blas_handle(self):
        raise RuntimeError("cuBLAS is used through its cuBLASLt interface, which has no handle per stream")

    current_solver_handle = current_blas_handle


_cuda = _Cuda("cuda", "CUDA")
globals().update(_cuda.functions())
device, device_of = guard("cuda", "CUDA")
_lazy_init, _is_in_bad_fork = (
    _cuda.init,
    lambda: "cuda" in __import__("taper._gpu.devices", fromlist=["_forked"])._forked,
)


def _lazy_call(callable, **options):
    """Calls it once CUDA is in use; settings are taken at any time here."""
    callable()


def _is_compiled():
    """Is CUDA part of this build? It is wherever a GPU is."""
    return _cuda.is_available()


class CudaError(RuntimeError):
    """An error of the CUDA runtime."""

    def __init__(self, code):
        super().__init__(f"CUDA error ({code})")


class DeferredCudaCallError(Exception):
    """A call that waited for CUDA failed."""


_sync_debug_mode = 0


def set_sync_debug_mode(debug_mode):
    """Kept as set: nothing warns of calls that wait."""
    global _sync_debug_mode
    level = {"default": 0, "warn": 1, "error": 2}.get(debug_mode, debug_mode)
    if level not in (0, 1, 2):
        raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
    _sync_debug_mode = level


def get_sync_debug_mode():
    _cuda.init()
    return _sync_debug_mode


_later = loaded_later(
    "cuda",
    {
        "": "amp comm graphs memory nccl nvtx profiler random streams",
        "streams": (
            "Stream ExternalStream Event StreamContext current_stream default_stream get_stream_from_external "
            "set_stream stream"
        ),
        "graphs": "CUDAGraph graph graph_pool_handle is_current_stream_capturing make_graphed_callables",
        "random": (
            "get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed seed_all set_rng_state "
            "set_rng_state_all"
        ),
        "memory": """CUDAPluggableAllocator MemPool caching_allocator_alloc caching_allocator_delete
        change_current_allocator empty_cache get_allocator_backend
        get_per_process_memory_fraction host_memory_stats host_memory_stats_as_nested_dict list_gpu_processes
        max_memory_allocated max_memory_cached max_memory_reserved
        mem_get_info memory_allocated memory_cached memory_reserved memory_snapshot memory_stats
        memory_stats_as_nested_dict memory_summary
        reset_accumulated_host_memory_stats reset_accumulated_memory_stats reset_max_memory_allocated
        reset_max_memory_cached reset_peak_host_memory_stats
        reset_peak_memory_stats set_per_process_memory_fraction use_mem_pool""",
        "_driver": "cudart cudaStatus check_error",
        "_management": "clock_rate device_memory_used memory_usage power_draw temperature utilization",
    },
)


def __getattr__(name):
    if name == "default_generators":
        return tuple(_C._default_generator_of("cuda", i) for i in range(_cuda.device_count()))
    if name == "_initialized":
        return _cuda.is_initialized()
    return _later(name)
