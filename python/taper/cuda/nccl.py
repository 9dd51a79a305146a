"""torch.cuda.nccl: collectives between GPUs."""
from taper._absent import refusals

globals().update(refusals("cuda.nccl", "CUDA", "version unique_id init_rank all_reduce reduce broadcast all_gather reduce_scatter"))


def is_available(tensors):
    return False
