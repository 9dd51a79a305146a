"""torch.utils.data.distributed: each process of a group gets its share of a dataset."""

from taper import _C
from taper.utils.data.sampler import Sampler, _seeded

__all__ = ["DistributedSampler"]


def _from_group(name):
    """The world size or the rank of the process group, which has to be there."""
    from taper import distributed

    if not distributed.is_available():
        raise RuntimeError("Requires distributed package to be available")
    return getattr(distributed, name)()


class DistributedSampler(Sampler):
    """Every num_replicas-th index from rank on. Shuffles by seed + epoch (set_epoch), the same in all processes;
    repeats the first indices, or drops the last (drop_last), so that all get the same number."""

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        if num_replicas is None:
            num_replicas = _from_group("get_world_size")
        if rank is None:
            rank = _from_group("get_rank")
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank, self.epoch = dataset, num_replicas, rank, 0
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        whole = len(dataset)
        self.num_samples = whole // num_replicas if drop_last else -(-whole // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self):
        n = len(self.dataset)
        order = (
            _C._functions["randperm"](n, generator=_seeded(self.seed + self.epoch)).tolist()
            if self.shuffle
            else range(n)
        )
        return iter([order[i % n] for i in range(self.rank, self.total_size, self.num_replicas)])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        self.epoch = epoch
