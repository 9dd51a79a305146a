"""From indices to data: what a loader, or each of its workers, does for one batch."""
from taper import _C
from taper._C import Tensor
from taper.utils.data._utils.collate import default_collate
from taper.utils.data.dataset import Subset, TensorDataset, _read_many


def _plain(tensor):
    return type(tensor) is Tensor and tensor.dim() > 0 and tensor.is_contiguous() and not tensor.requires_grad


def _rows_of(dataset):
    """For datasets whose batches are rows of tensors: a function from a list of indices to the tensors of the batch, or to None where
    the list is nothing it can read. None for other datasets."""
    if type(dataset) is TensorDataset and dataset.tensors and all(_plain(tensor) for tensor in dataset.tensors):
        tensors, n, select = dataset.tensors, len(dataset), _C._functions["index_select"]

        def rows(indices):
            if not all(type(i) is int and 0 <= i < n for i in indices):
                return None
            picked = _C.tensor(indices)
            return [select(tensor, 0, picked) for tensor in tensors]
        return rows
    if type(dataset) is Subset and type(dataset.indices) is list:
        inner, places = _rows_of(dataset.dataset), dataset.indices

        def rows_of_subset(indices):
            if not all(type(i) is int and 0 <= i < len(places) for i in indices):
                return None
            return inner([places[i] for i in indices])
        return inner and rows_of_subset
    return None


class _MapDatasetFetcher:
    """Reads samples by index. Rows of plain tensors are taken all at once: the same batch as collating them one by one."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.dataset, self.auto_collation, self.collate_fn, self.drop_last = dataset, auto_collation, collate_fn, drop_last
        self.rows = _rows_of(dataset) if auto_collation and collate_fn is default_collate else None

    def fetch(self, possibly_batched_index):
        if not self.auto_collation:
            return self.collate_fn(self.dataset[possibly_batched_index])
        if self.rows is not None and possibly_batched_index:
            batch = self.rows(possibly_batched_index)
            if batch is not None:
                return batch
        return self.collate_fn(_read_many(self.dataset, possibly_batched_index))


class _IterableDatasetFetcher:
    """Takes the next samples, as many as there are indices; StopIteration when there are none left."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.dataset, self.auto_collation, self.collate_fn, self.drop_last = dataset, auto_collation, collate_fn, drop_last
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
