import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
r, n = dist.get_rank(), dist.get_world_size()
if "TAPER_GLOO" in os.environ:
    import taper

    assert taper._C._dist_engine() == "gloo"
