"""Ranks of several nodes meet; with the argument "fail", rank 3 fails in the first attempt."""

from process_group import dist, r, torch
import os
import sys

x = torch.ones(1)
dist.all_reduce(x)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and r == 3 and sys.argv[1:] == ["fail"]:
    sys.exit(5)
dist.barrier()
print("rank", r, "node", os.environ["GROUP_RANK"], "sum", x.item(), "of", os.environ["GROUP_WORLD_SIZE"])
