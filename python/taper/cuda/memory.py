"""torch.cuda.memory: the memory of GPUs."""
from taper.cuda import (MemPool, caching_allocator_alloc, caching_allocator_delete, change_current_allocator, empty_cache, get_allocator_backend, list_gpu_processes,
                        max_memory_allocated, max_memory_cached, max_memory_reserved, mem_get_info, memory_allocated, memory_cached, memory_reserved,
                        memory_snapshot, memory_stats, memory_summary, reset_max_memory_allocated, reset_peak_memory_stats,
                        set_per_process_memory_fraction)  # noqa: F401
from taper._absent import refusals

globals().update(refusals("cuda.memory", "CUDA", "_record_memory_history _snapshot _dump_snapshot _save_segment_usage _save_memory_usage"))
