"""Prints the threads and the spinning that the job script chose."""

import os

print(f"{os.environ['OMP_NUM_THREADS']} {os.environ['KMP_BLOCKTIME']}\n", end="", flush=True)
