"""Loaders with worker processes: their order, what their workers draw, and the generators afterwards."""

import random

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Drawing(Dataset):
    def __len__(self):
        return 23

    def __getitem__(self, i):
        return i, torch.rand(1).item(), random.random(), float(np.random.rand()), torch.full((100, 100), i)


class Parts(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        return iter(range(worker.id * 100, worker.id * 100 + 7 + 5 * worker.id))


class Failing(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        if i == 4:
            raise KeyError("four")
        return i


def cannot_begin(worker_id):
    raise ValueError(f"worker {worker_id} cannot begin")


if __name__ == "__main__":
    for options in (
        {},
        {"num_workers": 2},
        {"num_workers": 2, "multiprocessing_context": "spawn", "persistent_workers": True},
        {"num_workers": 1, "multiprocessing_context": "forkserver", "prefetch_factor": 4},
    ):
        torch.manual_seed(7)
        random.seed(1)
        np.random.seed(1)
        loader = DataLoader(Drawing(), batch_size=5, shuffle=True, **options)
        for epoch in range(2):
            for index, *drawn, image in loader:
                print(
                    index.tolist(),
                    [[round(v, 6) for v in column.tolist()] for column in drawn],
                    tuple(image.shape),
                    image.sum().item(),
                )
        print(options, torch.rand(1).item())

    for options in (
        {"num_workers": 2},
        {"num_workers": 2, "batch_size": 3},
        {"num_workers": 2, "batch_size": 3, "drop_last": True},
    ):
        print([batch.tolist() for batch in DataLoader(Parts(), **options)])
    print(list(DataLoader(Parts(), num_workers=1, batch_size=None)))

    batches = iter(DataLoader(Failing(), num_workers=2, batch_size=2))
    while True:
        try:
            print(next(batches))
        except StopIteration:
            break
        except KeyError as error:
            lines = str(error).split("\n")
            print(type(error).__name__, lines[0], lines[1], lines[-2])
    try:
        list(DataLoader(range(5), num_workers=1, worker_init_fn=cannot_begin))
    except ValueError as error:
        print(str(error).split("\n")[0], str(error).split("\n")[-2])
