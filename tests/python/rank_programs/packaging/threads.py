import os

print(f"{os.environ['OMP_NUM_THREADS']} {os.environ['KMP_BLOCKTIME']}\n", end="", flush=True)
