"""Rank 1 fails in the first two attempts."""

import os
import sys
import time

count = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
print(f"try {count} rank {os.environ['RANK']}", flush=True)
if count < 2 and os.environ["RANK"] == "1":
    sys.exit(3)
if count < 2:
    time.sleep(60)
