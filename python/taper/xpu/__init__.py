"""torch.xpu: Intel's GPUs, or other devices that OpenCL finds. Without one is_available() says so, and what asks for a
GPU raises PyTorch's error."""

from taper import _C
from taper._gpu import loaded_later
from taper._gpu.devices import Devices, Properties, guard


class _XpuDeviceProperties(Properties):
    """What a device is and can do."""

    def __init__(self, about):
        version, _, driver = _C._gpu_version("xpu").partition(", driver ")
        super().__init__(
            about,
            platform_name=version,
            vendor="",
            type="gpu",
            version=f"{about['major']}.{about['minor']}",
            driver_version=driver,
            device_id=about["pci_device"],
            max_compute_units=about["units"],
            gpu_eu_count=about["units"],
            gpu_subslice_count=about["units"],
            max_work_group_size=about["max_threads"],
            max_num_sub_groups=about["max_threads"] // max(about["warp"], 1),
            sub_group_sizes=[about["warp"]],
            has_fp16=True,
            has_fp64=about["f64"],
            has_atomic64=True,
            has_bfloat16_conversions=False,
            has_subgroup_matrix_multiply_accumulate=False,
            has_subgroup_matrix_multiply_accumulate_tensor_float32=False,
            has_subgroup_2d_block_io=False,
            architecture=0,
            local_mem_size=about["shared"],
            last_level_cache_size=about["l2"],
            memory_clock_rate=about["memory_clock_khz"] // 1000,
            memory_bus_width=about["bus_bits"],
        )

    def __repr__(self):
        names = (
            "driver_version max_compute_units gpu_eu_count gpu_subslice_count max_work_group_size max_num_sub_groups "
            "sub_group_sizes has_fp16 has_fp64 has_atomic64"
        )
        return (
            f"_XpuDeviceProperties(name='{self.name}', platform_name='{self.platform_name}', type='{self.type}', "
            f"device_id={self.device_id:#x}, uuid={self.uuid}, total_memory={self.total_memory // (1024 * 1024)}MB, "
            f"{self._text(names.split())})"
        )


class _Xpu(Devices):
    _Properties = _XpuDeviceProperties

    def _bf16(self):
        return True

    def get_device_capability(self, device=None):
        """What the device has, by name."""
        return dict(vars(self.get_device_properties(device)))

    def is_tf32_supported(self):
        return False

    def can_device_access_peer(self, device, peer):
        """Can one device read another's memory? By OpenCL none can."""
        here, there = self._index(device), self._index(peer)
        return here == there

    def device_memory_used(self, device=None):
        """Bytes in use, as the driver tells."""
        free, total = _C._gpu_memory_info("xpu", self._index(device))
        return total - free

    def get_gencode_flags(self):
        """Kernels are compiled where they run."""
        return ""


_xpu = _Xpu("xpu", "XPU")
globals().update(_xpu.functions())
device, device_of = guard("xpu", "XPU")
_is_compiled = _xpu.is_available
_later = loaded_later(
    "xpu",
    {
        "": "graphs memory random streams",
        "streams": "Stream Event StreamContext current_stream get_stream_from_external set_stream stream",
        "graphs": "XPUGraph graph graph_pool_handle is_current_stream_capturing make_graphed_callables",
        "random": (
            "get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed seed_all set_rng_state "
            "set_rng_state_all"
        ),
        "memory": """MemPool empty_cache get_per_process_memory_fraction list_gpu_processes max_memory_allocated
        max_memory_reserved mem_get_info memory_allocated
        memory_reserved memory_snapshot memory_stats memory_stats_as_nested_dict reset_accumulated_memory_stats
        reset_peak_memory_stats
        set_per_process_memory_fraction use_mem_pool""",
    },
)


def __getattr__(name):
    if name == "default_generators":
        return tuple(_C._default_generator_of("xpu", i) for i in range(_xpu.device_count()))
    return _later(name)
