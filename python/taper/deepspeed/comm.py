"""deepspeed.comm: torch.distributed under DeepSpeed's name."""
from taper.distributed import *  # noqa: F401,F403
from taper.deepspeed import init_distributed  # noqa: F401


def get_local_rank():
    from taper.horovod.torch.mpi_ops import local_rank
    return local_rank()
