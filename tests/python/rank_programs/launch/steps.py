"""Prints a line for each of five steps."""

import os
import time

for step in range(5):
    print(f"rank {os.environ['RANK']} step {step}", flush=True)
    time.sleep(0.2)
