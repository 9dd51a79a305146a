"""NCCL fails on rank 1 as the variable of the first argument asks."""

from faults_begin import r, step
import os
import sys
import time

if r == 1:
    os.environ[sys.argv[1]] = "4"
while True:
    step()
    time.sleep(0.01)
