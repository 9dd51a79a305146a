"""Prints the rank and the GPU's tile that the job script chose."""

import os

print(f"rank {os.environ['PALS_RANKID']} sum 12 gpu {os.environ['ZE_AFFINITY_MASK']}\n", end="")
