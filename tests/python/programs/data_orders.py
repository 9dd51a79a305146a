"""Which samples loaders, samplers and splits give, in which order, and what the generators give after them."""

import torch
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)


def lists(loader):
    return [batch.tolist() for batch in loader]


torch.manual_seed(3)
loader = DataLoader(range(10), batch_size=4, shuffle=True)
print("shuffled", lists(loader), lists(loader), torch.rand(1).item())
loader = DataLoader(range(10), batch_size=4, shuffle=True, drop_last=True, generator=torch.Generator().manual_seed(5))
print("own generator", lists(loader), lists(loader), torch.rand(1).item())

for options in (
    {"replacement": True},
    {"num_samples": 25},
    {"replacement": True, "num_samples": 64},
    {"replacement": True, "num_samples": 70},
    {"num_samples": 3},
    {"num_samples": 20},
):
    own = torch.Generator().manual_seed(1)
    print(options, list(RandomSampler(range(10), **options)), torch.rand(1).item())
    print(list(RandomSampler(range(10), generator=own, **options)), torch.rand(1, generator=own).item())
print("subset", list(SubsetRandomSampler([5, 6, 7, 9])), torch.rand(1).item())
print(
    "weighted",
    list(WeightedRandomSampler([0.1, 0.2, 0.7, 0.0], 10)),
    list(WeightedRandomSampler([0.1, 0.2, 0.7, 0.5], 3, False)),
    torch.rand(1).item(),
)
for rank in range(3):
    for drop_last in (False, True):
        sampler = DistributedSampler(range(10), 3, rank, drop_last=drop_last)
        sampler.set_epoch(2)
        print("rank", rank, list(sampler), len(sampler))
print("more ranks than samples", list(DistributedSampler(range(2), 7, 6, shuffle=False)))
print(
    "split",
    [part.indices for part in random_split(range(10), [0.5, 0.25, 0.25], generator=torch.Generator().manual_seed(4))],
)
print("split", [part.indices for part in random_split(range(5), [2, 3])])

data = TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
print("tensors", [[x.tolist(), y.tolist()] for x, y in DataLoader(data, batch_size=4, shuffle=True)])
print("subset of tensors", [[x.tolist(), y.tolist()] for x, y in DataLoader(Subset(data, [4, 2, 1]), batch_size=2)])


class Seven(IterableDataset):
    def __iter__(self):
        return iter(range(7))

    def __len__(self):
        return 7


print(
    "iterable",
    lists(DataLoader(Seven(), batch_size=3)),
    lists(DataLoader(Seven(), batch_size=3, drop_last=True)),
    list(DataLoader(Seven(), batch_size=None)),
    len(DataLoader(Seven(), batch_size=3)),
    torch.rand(1).item(),
)
print("chain", list(Seven() + Seven()), len(Seven() + Seven()))
both = ConcatDataset([[1, 2], [3]])
print("concat", both[2], both[-1], len(both))
print("stack", StackDataset(a=[1, 2], b=[3, 4])[1], StackDataset([1, 2], [3, 4]).__getitems__([0, 1]))
print("one by one", list(DataLoader([1, 2, 3], batch_size=None, shuffle=True)))
print("batch sampler", lists(DataLoader(range(9), batch_sampler=[[1, 2], [3]])))
