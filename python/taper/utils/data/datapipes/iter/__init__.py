"""torch.utils.data.datapipes.iter: the steps of pipes that are read in order."""
import copy
import random
from itertools import chain

from taper.utils.data._utils.collate import default_collate
from taper.utils.data.datapipes._decorator import functional_datapipe
from taper.utils.data.datapipes.datapipe import DataChunk, IterDataPipe
from taper.utils.data.sampler import SequentialSampler

__all__ = ["Batcher", "Collator", "Concater", "Filter", "Forker", "Grouper", "IterableWrapper", "Mapper", "Multiplexer", "Sampler", "ShardingFilter",
           "Shuffler", "UnBatcher", "Zipper"]


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


class _Step(IterDataPipe):
    """A step with as many items as the pipe before it."""

    def __init__(self, datapipe):
        self.datapipe = datapipe

    def __len__(self):
        return len(self.datapipe)


@functional_datapipe("map")
class Mapper(_Step):
    """fn of each item, or of those of its columns that input_col names."""

    def __init__(self, datapipe, fn, input_col=None, output_col=None):
        if output_col is not None and input_col is None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        super().__init__(datapipe)
        self.fn, self.input_col, self.output_col = fn, input_col, output_col

    def _apply(self, item):
        if self.input_col is None:
            return self.fn(item)
        several = isinstance(self.input_col, (list, tuple))
        value = self.fn(*(item[col] for col in self.input_col)) if several else self.fn(item[self.input_col])
        kind = type(item)
        changed = list(item) if isinstance(item, tuple) else copy.copy(item)
        to = self.output_col if self.output_col is not None else (self.input_col[0] if several else self.input_col)
        to = to[0] if isinstance(to, (list, tuple)) else to
        if to == -1 and isinstance(changed, list) and self.output_col is not None:
            changed.append(value)
        else:
            changed[to] = value
        return kind(changed) if kind is tuple else changed

    def __iter__(self):
        for item in self.datapipe:
            yield self._apply(item)


@functional_datapipe("filter")
class Filter(IterDataPipe):
    """The items of which filter_fn is true."""

    def __init__(self, datapipe, filter_fn, input_col=None):
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self):
        for item in self.datapipe:
            looked_at = [item] if self.input_col is None else [item[c] for c in self.input_col] if isinstance(self.input_col, (list, tuple)) else [item[self.input_col]]
            if self.filter_fn(*looked_at):
                yield item


@functional_datapipe("batch")
class Batcher(IterDataPipe):
    """So many items at a time."""

    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=DataChunk):
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last, self.wrapper_class = datapipe, batch_size, drop_last, wrapper_class

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
        whole, rest = divmod(len(self.datapipe), self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)


@functional_datapipe("unbatch")
class UnBatcher(IterDataPipe):
    """The items of batches, so many levels deep (-1: all)."""

    def __init__(self, datapipe, unbatch_level=1):
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def _open(self, item, level):
        if level == 0 or level < 0 and not isinstance(item, (list, DataChunk)):
            yield item
        elif not isinstance(item, (list, DataChunk)):
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        else:
            for inner in item:
                yield from self._open(inner, level - 1)

    def __iter__(self):
        for item in self.datapipe:
            yield from self._open(item, self.unbatch_level)


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
            raise ValueError("buffer_size should be larger than 0")
        super().__init__(datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level))
        self.buffer_size, self._enabled, self._seed, self._rng = buffer_size, True, None, random.Random()

    def set_shuffle(self, shuffle=True):
        self._enabled = shuffle
        return self

    def set_seed(self, seed):
        self._seed = seed
        return self

    def __iter__(self):
        if not self._enabled:
            yield from self.datapipe
            return
        if self._seed is None:
            from taper.utils.data.sampler import _draw_seed
            self._seed = _draw_seed(None)
        self._rng.seed(self._seed)
        self._seed, buffer = None, []
        for item in self.datapipe:
            if len(buffer) == self.buffer_size:
                at = self._rng.randint(0, len(buffer) - 1)
                buffer[at], item = item, buffer[at]
                yield item
            else:
                buffer.append(item)
        while buffer:
            yield buffer.pop(self._rng.randint(0, len(buffer) - 1))


@functional_datapipe("sharding_filter")
class ShardingFilter(IterDataPipe):
    """Every n-th item: the share of one worker or rank."""

    def __init__(self, source_datapipe, sharding_group_filter=None):
        self.source_datapipe, self.num_of_instances, self.instance_id = source_datapipe, 1, 0

    def is_shardable(self):
        return True

    def apply_sharding(self, num_of_instances, instance_id, sharding_group=None):
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})")
        self.num_of_instances, self.instance_id = num_of_instances, instance_id

    def __iter__(self):
        for i, item in enumerate(self.source_datapipe):
            if i % self.num_of_instances == self.instance_id:
                yield item

    def __len__(self):
        whole, rest = divmod(len(self.source_datapipe), self.num_of_instances)
        return whole + (1 if self.instance_id < rest else 0)


class Sampler(_Step):
    """The order that a sampler gives."""

    def __init__(self, datapipe, sampler=SequentialSampler, sampler_args=None, sampler_kwargs=None):
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
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes

    def __iter__(self):
        return chain.from_iterable(self.datapipes)

    def __len__(self):
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class Zipper(IterDataPipe):
    """Tuples of one item of each pipe."""

    def __init__(self, *datapipes):
        self.datapipes = datapipes

    def __iter__(self):
        return iter(zip(*self.datapipes))

    def __len__(self):
        return min(map(len, self.datapipes))


@functional_datapipe("mux")
class Multiplexer(IterDataPipe):
    """One item of each pipe by turns, until one of them ends."""

    def __init__(self, *datapipes):
        self.datapipes = datapipes

    def __iter__(self):
        return chain.from_iterable(zip(*self.datapipes))

    def __len__(self):
        return min(map(len, self.datapipes)) * len(self.datapipes)


class _Fork(_Step):
    def __iter__(self):
        return iter(self.datapipe)


def Forker(datapipe, num_instances, buffer_size=1000, copy=None):
    """Several pipes over one, each with all of its items."""
    if num_instances < 1:
        raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")
    return [datapipe] if num_instances == 1 else [_Fork(datapipe) for _ in range(num_instances)]


IterDataPipe.register_function("fork", Forker)


@functional_datapipe("groupby")
class Grouper(IterDataPipe):
    """Items with the same key together, in groups of at most group_size; a full buffer gives its largest group."""

    def __init__(self, datapipe, group_key_fn, *, keep_key=False, buffer_size=10000, group_size=None, guaranteed_group_size=None, drop_remaining=False):
        self.datapipe, self.group_key_fn, self.keep_key, self.buffer_size, self.group_size = datapipe, group_key_fn, keep_key, buffer_size, group_size
        self.least, self.drop_remaining = guaranteed_group_size if guaranteed_group_size is not None else group_size, drop_remaining

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
                    raise RuntimeError(f"Failed to group items: the largest group has {len(groups[key])} items, which is fewer than the guaranteed group size")
                group = groups.pop(key)
                held -= len(group)
                if self.least is None or len(group) >= self.least:
                    yield self._given(key, group)
        for key, group in groups.items():
            yield self._given(key, group)


for _cls in (Batcher, Collator, Concater, Filter, Grouper, IterableWrapper, Mapper, Multiplexer, Sampler, ShardingFilter, Shuffler, UnBatcher, Zipper):
    globals()[f"{_cls.__name__}IterDataPipe"] = _cls
