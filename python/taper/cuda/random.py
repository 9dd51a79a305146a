"""torch.cuda.random: the random numbers of GPUs."""

from taper._gpu.random import Random

globals().update(Random("cuda", "CUDA").functions())
