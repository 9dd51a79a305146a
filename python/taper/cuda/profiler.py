"""torch.cuda.profiler: CUDA's own profiler."""
from taper._absent import refusals

globals().update(refusals("cuda.profiler", "CUDA", "init start stop profile"))
