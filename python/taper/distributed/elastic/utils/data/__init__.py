"""torch.distributed.elastic.utils.data: samplers that go on where a job left off, and an iterator over epochs."""

from taper.utils.data.distributed import DistributedSampler

__all__ = ["CyclingIterator", "ElasticDistributedSampler"]


class ElasticDistributedSampler(DistributedSampler):
    """A DistributedSampler over what follows the first start_index samples, which were trained with before a
    restart."""

    def __init__(self, dataset, num_replicas=None, rank=None, start_index=0):
        super().__init__(dataset, num_replicas, rank, shuffle=True)
        if start_index >= len(dataset):
            raise ValueError(f"Start index {start_index} should be less than dataset size {len(dataset)}")
        self.start_index = start_index
        self.num_samples = -(-(len(dataset) - start_index) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self):
        from taper import Generator, randperm

        left = len(self.dataset) - self.start_index
        order = [self.start_index + i for i in randperm(left, generator=Generator().manual_seed(self.epoch)).tolist()]
        while len(order) < self.total_size:
            order += order[: self.total_size - len(order)]
        return iter(order[self.rank : self.total_size : self.num_replicas])


class CyclingIterator:
    """n epochs in a row: generator_fn(epoch) gives the iterator of each."""

    def __init__(self, n, generator_fn, start_epoch=0):
        self._n, self._epoch, self._make, self._iterator = n, start_epoch, generator_fn, generator_fn(start_epoch)

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return next(self._iterator)
        except StopIteration:
            if self._epoch >= self._n - 1:
                raise
            self._epoch += 1
            self._iterator = self._make(self._epoch)
            return next(self)
