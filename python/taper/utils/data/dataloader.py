"""torch.utils.data.dataloader: batches of a dataset's samples, in the order of a sampler, read here or by worker
processes."""

import warnings
from collections.abc import Callable
from copy import deepcopy
from types import GenericAlias

from taper import _C
from taper.autograd.profiler import record_function
from taper.utils.data import _utils
from taper.utils.data._resume import Order, Position, Sources, can_tell, dataset_state, tell_dataset, tell_iterator
from taper.utils.data._utils.collate import default_collate, default_convert
from taper.utils.data._utils.worker import _is_pipe, get_worker_info
from taper.utils.data.dataset import Dataset, IterableDataset  # noqa: F401
from taper.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, _draw_seed

__all__ = ["DataLoader", "get_worker_info", "default_collate", "default_convert"]
_FORMAT = 1  # of what state_dict() gives


class _DatasetKind:
    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last):
        fetcher = _utils.fetch._MapDatasetFetcher if kind == _DatasetKind.Map else _utils.fetch._IterableDatasetFetcher
        return fetcher(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler):
    """For iterable datasets, which know what comes next."""

    def __init__(self):
        pass

    def __iter__(self):
        while True:
            yield None


class DataLoader:
    """Iterates over batches of a dataset; PyTorch's arguments and PyTorch's order.

    state_dict() tells where the loader stands, also in the middle of an epoch, and load_state_dict() goes there: the
    next loop gives the rest of that epoch. The generator that the order comes from is part of it: the loader's own if
    it has one, else the default one.

    worker_threads=N has threads read datasets that Taper reads in C (native.py), with the same batches."""

    __class_getitem__ = classmethod(GenericAlias)
    __initialized = False

    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=None,
        sampler=None,
        batch_sampler=None,
        num_workers=0,
        collate_fn=None,
        pin_memory=False,
        drop_last=False,
        timeout=0,
        worker_init_fn=None,
        multiprocessing_context=None,
        generator=None,
        *,
        prefetch_factor=None,
        persistent_workers=False,
        pin_memory_device="",
        in_order=True,
        worker_threads=0,
    ):
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, worker_threads)
        if shuffle is not None and _is_pipe(dataset) and isinstance(dataset, IterableDataset):
            from taper.utils.data.graph_settings import apply_shuffle_settings

            dataset, shuffle = apply_shuffle_settings(dataset, shuffle), None
        self.dataset, self.num_workers = dataset, num_workers
        self.prefetch_factor, self.worker_threads = prefetch_factor, worker_threads
        if num_workers + worker_threads > 0 and prefetch_factor is None:
            self.prefetch_factor = 2
        self.pin_memory, self.pin_memory_device, self.timeout, self.worker_init_fn = (
            pin_memory,
            pin_memory_device,
            timeout,
            worker_init_fn,
        )
        self.multiprocessing_context, self.in_order = multiprocessing_context, in_order
        self._dataset_kind = _DatasetKind.Iterable if isinstance(dataset, IterableDataset) else _DatasetKind.Map
        _check_order(self._dataset_kind, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None and self._dataset_kind == _DatasetKind.Iterable:
            sampler = _InfiniteConstantSampler()
        elif sampler is None:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.sampler, self.batch_sampler, self.generator = (
            batch_size,
            drop_last,
            sampler,
            batch_sampler,
            generator,
        )
        self.collate_fn = (
            collate_fn if collate_fn is not None else default_collate if self._auto_collation else default_convert
        )
        self.persistent_workers = persistent_workers
        self._IterableDataset_len_called = None
        self._iterator = None
        self._position, self._saved = (
            None,
            None,
        )  # of the latest epoch; what load_state_dict() was given, until the next epoch
        self.__initialized = True
        self.check_worker_number_rationality()

    def __setattr__(self, name, value):
        if self.__initialized and name in (
            "batch_size",
            "batch_sampler",
            "sampler",
            "drop_last",
            "dataset",
            "persistent_workers",
        ):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __getstate__(self):
        """For copies and pickles: the same loader, at its beginning."""
        return {**self.__dict__, "_iterator": None, "_position": None}

    @property
    def multiprocessing_context(self):
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        if context is not None and self.num_workers == 0:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                f"num_workers={self.num_workers}"
            )
        if context is not None:
            import multiprocessing

            if isinstance(context, str):
                methods = multiprocessing.get_all_start_methods()
                if context not in methods:
                    raise ValueError(
                        f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                        f"multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string specifying the "
                    f"start method, but got multiprocessing_context={context}"
                )
        self.__multiprocessing_context = context

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self):
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is not None:
            length = length // self.batch_size if self.drop_last else -(-length // self.batch_size)
        return length

    def check_worker_number_rationality(self):
        """Warns of more workers than there are processors."""
        if not self.num_workers:
            return
        import os

        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if processors is not None and self.num_workers > processors:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number "
                f"of worker in current system is {processors}, which is smaller than what this DataLoader is going to "
                "create. Please be aware that excessive worker creation might get DataLoader running slow or even "
                "freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
                stacklevel=3,
            )

    def _get_iterator(self):
        if self.worker_threads:
            from taper.utils.data._threads import _ThreadedDataLoaderIter

            return _ThreadedDataLoaderIter(self)
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        from taper.utils.data._processes import _MultiProcessingDataLoaderIter

        return _MultiProcessingDataLoaderIter(self)

    def __iter__(self):
        if not self.persistent_workers or not self.num_workers:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._begin(self)
        return self._iterator

    # ---- Where it stands ----
    def state_dict(self):
        """Where the loader stands: load_state_dict() of a loader made alike, here or in another process, goes on from
        there."""
        if self._saved is not None:
            return self._saved
        named, default = Sources(self).named, _C.default_generator
        state = {
            "format": _FORMAT,
            "named": [generator.get_state() for generator in named],
            "epoch": None,
            "default": default.get_state() if self.generator is None else None,
        }
        if self._position is not None and not self._position.finished:
            if not self.in_order and self.num_workers > 1:
                raise ValueError(
                    "state_dict(): within an epoch, a loader with in_order=False has no place to go back to"
                )
            state["epoch"] = self._position.state()
        else:
            state["between"] = {name: deepcopy(part.state_dict()) for name, part in self._tellers()}
        return state

    def load_state_dict(self, state_dict):
        """Goes where a loader stood. The next loop over it gives what was left of that epoch; those after it are
        whole."""
        if not isinstance(state_dict, dict) or state_dict.get("format") != _FORMAT:
            raise ValueError(
                "load_state_dict(): expected what DataLoader.state_dict() gave, "
                f"got {sorted(state_dict) if isinstance(state_dict, dict) else type(state_dict).__name__}"
            )
        named = Sources(self).named
        if len(named) != len(state_dict["named"]):
            raise ValueError(f"the saved loader had {len(state_dict['named'])} generators, this one has {len(named)}")
        for generator, state in zip(named, state_dict["named"]):
            generator.set_state(state)
        if state_dict["default"] is not None and self.generator is None:
            _C.default_generator.set_state(state_dict["default"])
        if self._iterator is not None:  # its workers stand elsewhere
            self._iterator._shutdown_workers()
            self._iterator = None
        self._position, self._saved = None, state_dict if state_dict["epoch"] is not None else None
        if self._saved is None:
            for name, part in self._tellers():
                part.load_state_dict(deepcopy(state_dict["between"][name]))

    def _tellers(self):
        """What has a state of its own to tell between epochs."""
        parts = ("batch_sampler", self.batch_sampler), ("sampler", self.sampler), ("dataset", self.dataset)
        return [(name, part) for name, part in parts if can_tell(part)]


# For annotations.
_collate_fn_t = Callable[[list], object]
_worker_init_fn_t = Callable[[int], None]


def _sharding_worker_init_fn(worker_init_fn, world_size, rank_id, worker_id):
    """Each worker of each rank reads its share of a pipe."""
    from taper.utils.data.graph_settings import apply_sharding

    info = get_worker_info()
    apply_sharding(info.dataset, info.num_workers * world_size, rank_id * info.num_workers + worker_id)
    if worker_init_fn is not None:
        worker_init_fn(worker_id)


def _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, worker_threads):
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if worker_threads < 0 or worker_threads and num_workers:
        raise ValueError(
            "worker_threads option should be non-negative, and positive only where num_workers is 0, but got "
            f"worker_threads={worker_threads} and num_workers={num_workers}"
        )
    if num_workers == 0 and worker_threads == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_order(kind, batch_size, shuffle, sampler, batch_sampler, drop_last):
    if kind == _DatasetKind.Iterable:
        if shuffle not in (False, None):
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}"
            )
        if sampler is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified sampler option, but got sampler={sampler}"
            )
        if batch_sampler is not None:
            raise ValueError(
                "DataLoader with IterableDataset: expected unspecified batch_sampler option, but got "
                f"batch_sampler={batch_sampler}"
            )
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")


def _has_accelerator():
    from taper.accelerator import is_available

    return is_available()


class _BaseDataLoaderIter:
    """One epoch of a loader. At its beginning a seed is drawn from the loader's generator, as PyTorch does, with
    workers or without."""

    def __init__(self, loader):
        self._dataset, self._dataset_kind = loader.dataset, loader._dataset_kind
        self._auto_collation, self._drop_last, self._collate_fn = (
            loader._auto_collation,
            loader.drop_last,
            loader.collate_fn,
        )
        self._index_sampler, self._num_workers, self._timeout = (
            loader._index_sampler,
            loader.num_workers,
            loader.timeout,
        )
        self._pin_memory, self._persistent_workers = loader.pin_memory and _has_accelerator(), loader.persistent_workers
        if loader.pin_memory and loader.pin_memory_device:
            warnings.warn(
                "pin_memory_device is deprecated, the current accelerator will be used as the device,ignore "
                f"pin_memory_device='{loader.pin_memory_device}'.",
                stacklevel=4,
            )
        if loader.pin_memory and not self._pin_memory:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't "
                "be used.",
                stacklevel=4,
            )
        _C._keep_freed_memory()
        self._base_seed = None
        self._profile_name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"
        self._begin(loader)

    def _begin(self, loader):
        """A new epoch, or the one that load_state_dict() goes back to, whose state is returned then."""
        saved, loader._saved = loader._saved and loader._saved["epoch"], None
        if saved:
            self._check_workers(saved["workers"] or [])
        batches = saved["batches"] if saved else 0
        self._order = Order(loader, saved and saved["order"], batches if self._dataset_kind == _DatasetKind.Map else 0)
        if saved:
            self._base_seed = saved["base_seed"]
        elif self._base_seed is None:
            self._base_seed = _draw_seed(loader.generator)
        self._len_called, self._num_yielded = loader._IterableDataset_len_called, batches
        self._position = loader._position = Position(self._order, self._base_seed, batches)
        return saved

    def _check_workers(self, saved):
        telling = self._dataset_kind == _DatasetKind.Iterable or any("dataset" in worker for worker in saved)
        if telling and len(saved) != self._num_workers:
            raise ValueError(
                f"the saved loader had {len(saved)} workers, this one has {self._num_workers}: the part of the "
                "dataset that each had read cannot be found again"
            )

    def __iter__(self):
        return self

    def __next__(self):
        try:
            with record_function(self._profile_name):
                data = self._next_data()
        except StopIteration:
            self._position.finished = True
            raise
        except Exception:
            self._position.batches += 1  # it will not come again
            raise
        if self._pin_memory:
            data = _utils.pin_memory.pin_memory(data)
        self._num_yielded += 1
        self._position.batches += 1
        if (
            self._dataset_kind == _DatasetKind.Iterable
            and self._len_called is not None
            and self._num_yielded > self._len_called
        ):
            self._warn_of_length()
        return data

    def _warn_of_length(self):
        text = (
            f"Length of IterableDataset {self._dataset} was reported to be {self._len_called}(when accessing "
            f"len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers > 0:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the "
                "IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
            )
        warnings.warn(text, stacklevel=3)

    def __len__(self):
        return len(self._index_sampler)

    def __getstate__(self):
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Reads batches here, when they are asked for."""

    def __init__(self, loader):
        if loader.timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        super().__init__(loader)

    def _begin(self, loader):
        saved = super()._begin(loader)
        told = saved["dataset"] if saved else None
        if told is not None:
            tell_dataset(self._dataset, told)
        self._fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        )
        if told is not None:
            tell_iterator(self._fetcher, told)
        elif saved and self._dataset_kind == _DatasetKind.Iterable:
            self._order.rehearse(self._fetcher.fetch, saved["batches"])
        self._position.dataset = told if told is not None else dataset_state(self._fetcher)

    def _next_data(self):
        index = next(self._order)
        data = self._fetcher.fetch(index)
        self._position.mark = self._order.mark()
        self._position.dataset = dataset_state(self._fetcher)
        return data


def __getattr__(name):
    if name == "_MultiProcessingDataLoaderIter":
        from taper.utils.data._processes import _MultiProcessingDataLoaderIter

        return _MultiProcessingDataLoaderIter
    raise AttributeError(f"module 'torch.utils.data.dataloader' has no attribute '{name}'")
