"""torch.accelerator.memory: the memory of whichever accelerator there is."""

from taper.accelerator import (
    empty_cache,
    empty_host_cache,
    get_memory_info,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,  # noqa: F401
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
