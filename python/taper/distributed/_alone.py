"""Joining the world of whatever started the process, or being a world of one: what Horovod's and DeepSpeed's ways in
do."""

import os

from taper import _C
from taper import distributed as dist


def join_world():
    """Initialises torch.distributed unless that was done; whether it was done here."""
    if dist.is_initialized():
        return False
    if _C._dist_place()[0] is None:
        from taper._launch.options import free_port

        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1")
        os.environ.setdefault("MASTER_PORT", str(free_port()))
    dist.init_process_group()
    return True


def local_rank():
    """The number of this process on its node."""
    known = _C._dist_place()[3]
    return known if known >= 0 else dist.get_rank()
