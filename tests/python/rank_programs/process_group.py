"""Joins the process group on import, as the test's variables say:

TEST_BACKEND  what init_process_group is given; gloo where it is not set, no backend where it is empty
TEST_ENGINES  the engines of which one must carry the messages
TEST_DEVICE   the default device"""

import os
import taper
import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("TEST_BACKEND", "gloo") or None)
r, n = dist.get_rank(), dist.get_world_size()
if "TEST_ENGINES" in os.environ:
    engine = taper._C._dist_engine()
    assert engine in os.environ["TEST_ENGINES"].split(), engine
if "TEST_DEVICE" in os.environ:
    torch.set_default_device(os.environ["TEST_DEVICE"])
