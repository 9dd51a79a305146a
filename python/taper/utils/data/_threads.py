"""A loader's epoch read by threads of the library's (native.py), ahead of the program."""

from collections import deque

from taper import _C
from taper.utils.data._utils.collate import default_collate
from taper.utils.data.dataloader import _BaseDataLoaderIter
from taper.utils.data.native import native_of


class _ThreadedDataLoaderIter(_BaseDataLoaderIter):
    """Batches come in the sampler's order, whichever thread read them."""

    def __init__(self, loader):
        native = native_of(loader.dataset) if loader.collate_fn is default_collate and loader._auto_collation else None
        if native is None:
            raise ValueError(
                "worker_threads needs a dataset that Taper reads in C (taper.utils.data.native, a TensorDataset of "
                "plain tensors, or a Subset of one) with batches made by default_collate, got "
                f"{type(loader.dataset).__name__}; num_workers reads any dataset"
            )
        capacity = loader.worker_threads * max(1, loader.prefetch_factor)
        self._reader, self._capacity, self._count, self._marks = (
            _C._Reader(native, loader.worker_threads, capacity),
            capacity,
            len(native),
            deque(),
        )
        super().__init__(loader)
        self._ask()

    def _ask(self):
        while len(self._marks) < self._capacity:
            index = next(self._order, None)
            if index is None:
                break
            self._reader.ask([i + self._count if i < 0 else i for i in index])
            self._marks.append(self._order.mark())

    def _next_data(self):
        if not self._marks:
            raise StopIteration
        self._position.mark = self._marks.popleft()
        try:
            return self._reader.take()
        finally:
            self._ask()
