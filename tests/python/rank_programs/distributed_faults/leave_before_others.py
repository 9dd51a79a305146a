"""Rank 0 has done its part of a collective and leaves the job; rank 1 still waits in it, for rank 2 alone."""

from process_group import dist, r
import time
import torch

x = torch.full((3,), float(r))
if r == 2:
    time.sleep(4)
dist.reduce(x, 1)
if r == 1:
    print(x.tolist())
