"""Rank 0 is killed; the other one does not hear SIGTERM."""

from launch_begin import leave
import os
import signal
import sys
import time

if os.environ["RANK"] == "0":
    leave(sys.argv[1], "failed", str(time.monotonic()))
    os.kill(os.getpid(), signal.SIGKILL)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(100)
