"""torch.xpu.memory: the memory of Intel's GPUs."""

from taper._gpu.graphs import MemPool, use_mem_pool  # noqa: F401
from taper._gpu.memory import Memory

_memory = Memory("xpu", "XPU")
globals().update(_memory.functions())
_record_memory_history, _snapshot, _dump_snapshot = (
    _memory._record_memory_history,
    _memory._snapshot,
    _memory._dump_snapshot,
)
