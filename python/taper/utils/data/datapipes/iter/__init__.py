"""torch.utils.data.datapipes.iter: the steps of pipes that are read in order."""

import copy
import random
from collections.abc import Sized
from itertools import chain

from taper.utils.data._utils.collate import default_collate
from taper.utils.data.datapipes._decorator import functional_datapipe
from taper.utils.data.datapipes.datapipe import DataChunk, IterDataPipe
from taper.utils.data.datapipes.iter._children import DemultiplexerIterDataPipe, ForkerIterDataPipe
from taper.utils.data.datapipes.iter._files import (
    FileListerIterDataPipe,
    FileOpenerIterDataPipe,
    RoutedDecoderIterDataPipe,
    StreamReaderIterDataPipe,
)
from taper.utils.data.datapipes.iter.sharding import ShardingFilterIterDataPipe
from taper.utils.data.datapipes.utils.common import _check_unpickable_fn, validate_input_col
from taper.utils.data.sampler import SequentialSampler

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Demultiplexer",
    "FileLister",
    "FileOpener",
    "Filter",
    "Forker",
    "Grouper",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "RoutedDecoder",
    "Sampler",
    "ShardingFilter",
    "Shuffler",
    "StreamReader",
    "UnBatcher",
    "Zipper",
]


class IterableWrapper(IterDataPipe):
    """An iterable as a pipe; read from a copy, so that reading does not change it."""

    def __init__(self, iterable, deepcopy=True):
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self):
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:  # generators have no copies
                pass
        yield from source

    def __len__(self):
        return len(self.iterable)


def _lengths(pipe, sources):
    """The lengths of those a pipe reads from, which must have one."""
    if not all(isinstance(source, Sized) for source in sources):
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")
    return [len(source) for source in sources]


def _check_pipes(datapipes):
    if not datapipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
        raise TypeError("Expected all inputs to be `IterDataPipe`")


class _Step(IterDataPipe):
    """A step with as many items as the pipe before it."""

    def __init__(self, datapipe):
        self.datapipe = datapipe

    def __len__(self):
        return _lengths(self, [self.datapipe])[0]


@functional_datapipe("map")
class Mapper(_Step):
    """fn of each item, or of those of its columns that input_col names."""

    def __init__(self, datapipe, fn, input_col=None, output_col=None):
        _check_unpickable_fn(fn)
        if output_col is not None and input_col is None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        if input_col is not None:
            validate_input_col(fn, input_col)
        super().__init__(datapipe)
        self.fn, self.input_col, self.output_col = fn, input_col, output_col

    def _apply(self, item):
        if self.input_col is None:
            return self.fn(item)
        columns = list(self.input_col) if isinstance(self.input_col, (list, tuple)) else [self.input_col]
        value = self.fn(*(item[column] for column in columns))
        changed = list(item) if isinstance(item, tuple) else copy.copy(item)
        if self.output_col is None:
            changed[columns[0]] = value
            rest = columns[1:]
            for column in sorted(rest, reverse=True) if isinstance(changed, list) else rest:
                del changed[column]
        elif self.output_col == -1:
            changed.append(value)
        else:
            changed[self.output_col] = value
        return tuple(changed) if isinstance(item, tuple) else changed

    def __iter__(self):
        for item in self.datapipe:
            yield self._apply(item)


@functional_datapipe("filter")
class Filter(IterDataPipe):
    """The items of which filter_fn is true."""

    def __init__(self, datapipe, filter_fn, input_col=None):
        _check_unpickable_fn(filter_fn)
        if input_col is not None:
            validate_input_col(filter_fn, input_col)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self):
        for item in self.datapipe:
            looked_at = (
                [item]
                if self.input_col is None
                else [item[c] for c in self.input_col]
                if isinstance(self.input_col, (list, tuple))
                else [item[self.input_col]]
            )
            kept = self.filter_fn(*looked_at)
            if not isinstance(kept, bool):
                raise ValueError(f"Boolean output is required for `filter_fn` of FilterIterDataPipe, got {type(kept)}")
            if kept:
                yield item


@functional_datapipe("batch")
class Batcher(IterDataPipe):
    """So many items at a time."""

    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=DataChunk):
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last, self.wrapper_class = (
            datapipe,
            batch_size,
            drop_last,
            wrapper_class,
        )

    def __iter__(self):
        batch = []
        for item in self.datapipe:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self):
        whole, rest = divmod(_lengths(self, [self.datapipe])[0], self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)


@functional_datapipe("unbatch")
class UnBatcher(IterDataPipe):
    """The items of batches, so many levels deep (-1: all)."""

    def __init__(self, datapipe, unbatch_level=1):
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self):
        if self.unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        for item in self.datapipe:
            yield from self._open(item, self.unbatch_level)

    def _open(self, item, level):
        if level == 0 or level < 0 and not isinstance(item, (list, DataChunk)):
            yield item
        elif not isinstance(item, (list, DataChunk)):
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        else:
            for inner in item:
                yield from self._open(inner, level - 1)


@functional_datapipe("collate")
class Collator(Mapper):
    """Batches as tensors."""

    def __init__(self, datapipe, conversion=default_collate, collate_fn=None):
        super().__init__(datapipe, collate_fn if collate_fn is not None else conversion)


@functional_datapipe("shuffle")
class Shuffler(_Step):
    """Items in an order by chance: each drawn from a buffer of the next ones."""

    def __init__(self, datapipe, *, buffer_size=10000, unbatch_level=0):
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        super().__init__(datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level))
        self.buffer_size, self._enabled, self._seed, self._rng, self._buffer = (
            buffer_size,
            True,
            None,
            random.Random(),
            [],
        )

    def set_shuffle(self, shuffle=True):
        self._enabled = shuffle
        return self

    def set_seed(self, seed):
        self._seed = seed
        return self

    def reset(self):
        self._buffer = []
        if self._enabled:
            if self._seed is None:
                from taper.utils.data.sampler import _draw_seed

                self._seed = _draw_seed(None)
            self._rng.seed(self._seed)
            self._seed = None

    def __iter__(self):
        if not self._enabled:
            yield from self.datapipe
            return
        for item in self.datapipe:
            if len(self._buffer) == self.buffer_size:
                at = self._rng.randint(0, len(self._buffer) - 1)
                self._buffer[at], item = item, self._buffer[at]
                yield item
            else:
                self._buffer.append(item)
        while self._buffer:
            yield self._buffer.pop(self._rng.randint(0, len(self._buffer) - 1))


class Sampler(_Step):
    """The order that a sampler gives."""

    def __init__(self, datapipe, sampler=SequentialSampler, sampler_args=None, sampler_kwargs=None):
        if not isinstance(datapipe, Sized):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        super().__init__(datapipe)
        self.sampler = sampler(*(sampler_args or ()), data_source=datapipe, **(sampler_kwargs or {}))

    def __iter__(self):
        return iter(self.sampler)

    def __len__(self):
        return len(self.sampler)


@functional_datapipe("concat")
class Concater(IterDataPipe):
    """One pipe after the other."""

    def __init__(self, *datapipes):
        _check_pipes(datapipes)
        self.datapipes = datapipes

    def __iter__(self):
        return chain.from_iterable(self.datapipes)

    def __len__(self):
        return sum(_lengths(self, self.datapipes))


@functional_datapipe("zip")
class Zipper(IterDataPipe):
    """Tuples of one item of each pipe."""

    def __init__(self, *datapipes):
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        self.datapipes = datapipes

    def __iter__(self):
        return iter(zip(*self.datapipes))

    def __len__(self):
        return min(_lengths(self, self.datapipes))


@functional_datapipe("mux")
class Multiplexer(IterDataPipe):
    """One item of each pipe by turns, until one of them ends."""

    def __init__(self, *datapipes):
        self.datapipes = datapipes

    def __iter__(self):
        return chain.from_iterable(zip(*self.datapipes))

    def __len__(self):
        return min(_lengths(self, self.datapipes)) * len(self.datapipes)


IterDataPipe.register_datapipe_as_function("fork", ForkerIterDataPipe)
IterDataPipe.register_datapipe_as_function("demux", DemultiplexerIterDataPipe)
Forker, Demultiplexer, ShardingFilter = ForkerIterDataPipe, DemultiplexerIterDataPipe, ShardingFilterIterDataPipe
FileLister, FileOpener, RoutedDecoder, StreamReader = (
    FileListerIterDataPipe,
    FileOpenerIterDataPipe,
    RoutedDecoderIterDataPipe,
    StreamReaderIterDataPipe,
)


@functional_datapipe("groupby")
class Grouper(IterDataPipe):
    """Items with the same key together, in groups of at most group_size; a full buffer gives its largest group."""

    def __init__(
        self,
        datapipe,
        group_key_fn,
        *,
        keep_key=False,
        buffer_size=10000,
        group_size=None,
        guaranteed_group_size=None,
        drop_remaining=False,
    ):
        _check_unpickable_fn(group_key_fn)
        self.datapipe, self.group_key_fn, self.keep_key, self.buffer_size, self.group_size = (
            datapipe,
            group_key_fn,
            keep_key,
            buffer_size,
            group_size,
        )
        self.least, self.drop_remaining = (
            guaranteed_group_size if guaranteed_group_size is not None else group_size,
            drop_remaining,
        )

    def _given(self, key, group):
        chunk = DataChunk(group)
        return (key, chunk) if self.keep_key else chunk

    def __iter__(self):
        groups, held = {}, 0
        for item in self.datapipe:
            key = self.group_key_fn(item)
            groups.setdefault(key, []).append(item)
            held += 1
            if self.group_size is not None and len(groups[key]) == self.group_size:
                held -= self.group_size
                yield self._given(key, groups.pop(key))
            elif held == self.buffer_size:
                key = max(groups, key=lambda k: len(groups[k]))
                if self.least is not None and len(groups[key]) < self.least and not self.drop_remaining:
                    raise RuntimeError(
                        f"Failed to group items: the largest group has {len(groups[key])} items, which is fewer than "
                        "the guaranteed group size"
                    )
                group = groups.pop(key)
                held -= len(group)
                if self.least is None or len(group) >= self.least:
                    yield self._given(key, group)
        for key, group in groups.items():
            yield self._given(key, group)


for _cls in (
    Batcher,
    Collator,
    Concater,
    Filter,
    Grouper,
    IterableWrapper,
    Mapper,
    Multiplexer,
    Sampler,
    Shuffler,
    UnBatcher,
    Zipper,
):
    globals()[f"{_cls.__name__}IterDataPipe"] = _cls
