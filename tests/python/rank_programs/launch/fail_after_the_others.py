"""Rank 1 leaves the group, which the other one fails of, and fails itself half a second later."""

from process_group import dist, r
import time

dist.barrier()
if r == 1:
    dist.destroy_process_group()
    time.sleep(0.5)
    raise ValueError("the reason")
dist.barrier()
