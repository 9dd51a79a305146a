"""Rank 1 fails when all three have started; the others would go on."""

from launch_begin import leave
import os
import sys
import time

folder = sys.argv[1]
leave(folder, "pid", str(os.getpid()))


def train():
    while not all(os.path.exists(os.path.join(folder, f"pid{rank}")) for rank in range(3)):
        time.sleep(0.01)
    if os.environ["RANK"] == "1":
        leave(folder, "failed", str(time.monotonic()))
        raise ValueError("lost its way")
    time.sleep(100)


train()
