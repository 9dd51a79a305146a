"""From indices to data: what a loader, or each of its workers, does for one batch."""

from taper import _C
from taper.utils.data._utils.collate import default_collate
from taper.utils.data.dataset import _read_many
from taper.utils.data.native import native_of


class _MapDatasetFetcher:
    """Reads samples by index. What the library can read (native.py) it reads a batch at a time: the same as collating
    sample by sample."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.dataset, self.auto_collation, self.collate_fn, self.drop_last = (
            dataset,
            auto_collation,
            collate_fn,
            drop_last,
        )
        native = native_of(dataset) if auto_collation and collate_fn is default_collate else None
        self.reader = native and _C._Reader(native, 0, 1)

    def fetch(self, possibly_batched_index):
        if not self.auto_collation:
            return self.collate_fn(self.dataset[possibly_batched_index])
        if self.reader is not None and type(possibly_batched_index) is list and possibly_batched_index:
            try:
                self.reader.ask(possibly_batched_index)
                return self.reader.take()
            except (IndexError, TypeError):
                pass  # not plain indices: the samples say what becomes of them
        return self.collate_fn(_read_many(self.dataset, possibly_batched_index))


class _IterableDatasetFetcher:
    """Takes the next samples, as many as there are indices; StopIteration when there are none left."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.dataset, self.auto_collation, self.collate_fn, self.drop_last = (
            dataset,
            auto_collation,
            collate_fn,
            drop_last,
        )
        self.dataset_iter, self.ended = iter(dataset), False

    def fetch(self, possibly_batched_index):
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        from itertools import islice

        samples = list(islice(self.dataset_iter, len(possibly_batched_index)))
        self.ended = len(samples) < len(possibly_batched_index)
        if not samples or self.ended and self.drop_last:
            raise StopIteration
        return self.collate_fn(samples)
