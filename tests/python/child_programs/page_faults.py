"""Prints the page faults of a second epoch over samples that each take and leave 1.6 MB."""

import resource
import taper
from taper.utils.data import DataLoader, Dataset


class Blocks(Dataset):
    def __len__(self):
        return 50

    def __getitem__(self, i):
        return taper.tensor(len([bytearray(400_000) for _ in range(4)]))


def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    assert len(list(DataLoader(Blocks()))) == 50
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


faults()
print(faults())
