"""torch.xpu.random: the random numbers of Intel's GPUs."""

from taper._gpu.random import Random

globals().update(Random("xpu", "XPU").functions())
