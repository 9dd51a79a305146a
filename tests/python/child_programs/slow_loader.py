"""Prints the workers that make each sample."""

import os
import sys
import time
import taper as torch
from taper.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 10_000

    def __getitem__(self, i):
        time.sleep(0.05)
        return os.getpid()


for pid in DataLoader(Slow(), batch_size=None, num_workers=2):
    print(pid, flush=True)
