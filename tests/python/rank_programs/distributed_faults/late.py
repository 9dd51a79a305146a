"""Ranks of which some (first argument: "6,2") come when the others have given up, or stop where the second argument says
so; each prints what it was told. The third argument is the size of the tensor, the last one a folder."""

from process_group import dist, r, torch
from datetime import timedelta
import os
import signal
import sys
import time

culprits, how, size = [int(rank) for rank in sys.argv[1].split(",")], sys.argv[2], int(sys.argv[3])
told = os.path.join(sys.argv[4], "told")
for _ in range(2):
    dist.all_reduce(torch.ones(3, 4))
dist.distributed_c10d._set_pg_timeout(timedelta(seconds=3))
if r in culprits and how == "stop":
    os.kill(os.getpid(), signal.SIGSTOP)
while r in culprits and not os.path.exists(told):
    time.sleep(0.02)
try:
    dist.all_reduce(torch.ones(size, 4))
except dist.DistBackendError as error:
    said = str(error).replace("\n", " ")
    print(f"rank {r}, pid {os.getpid()}, told: {said}\n", end="", flush=True)  # in one piece: ranks share a stream
    open(told, "w").close()
