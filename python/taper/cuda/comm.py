"""torch.cuda.comm: tensors between GPUs."""
from taper._absent import refusals

globals().update(refusals("cuda.comm", "CUDA", "broadcast broadcast_coalesced reduce_add reduce_add_coalesced scatter gather"))
