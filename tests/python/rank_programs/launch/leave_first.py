"""Rank 1 leaves as the argument says, and the others fail of it within moments."""

from process_group import dist, r
import os
import sys
import time
from torch.distributed.elastic.multiprocessing.errors import record


@record
def fail():
    raise ValueError("the reason")


@record
def wait():
    dist.barrier()


if r == 1 and sys.argv[1] == "status 5":
    os._exit(5)
if r == 1 and sys.argv[1] == "status 0":
    sys.exit(0)
if r == 1:
    time.sleep(0.2)
    dist.destroy_process_group()
    fail()
try:
    wait()
except RuntimeError:
    os._exit(7)
