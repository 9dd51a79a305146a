"""Rank 1 dies; the other one computes and comes to no collective."""

from faults_begin import r
import os
import signal

if r == 1:
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    pass
