"""torch.xpu.memory: the memory of Intel's GPUs."""

from taper._gpu.graphs import MemPool, use_mem_pool  # noqa: F401
from taper._gpu.memory import Memory

globals().update(Memory("xpu", "XPU").functions())
