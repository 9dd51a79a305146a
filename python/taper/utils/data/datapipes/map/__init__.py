"""torch.utils.data.datapipes.map: the steps of pipes whose items have indices."""

from taper.utils.data.datapipes._decorator import functional_datapipe
from taper.utils.data.datapipes.datapipe import DataChunk, IterDataPipe, MapDataPipe
from taper.utils.data.datapipes.utils.common import _check_unpickable_fn

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]


class SequenceWrapper(MapDataPipe):
    """A sequence or a dict as a pipe."""

    def __init__(self, sequence, deepcopy=True):
        from copy import deepcopy as copied

        self.sequence = copied(sequence) if deepcopy else sequence

    def __getitem__(self, index):
        return self.sequence[index]

    def __len__(self):
        return len(self.sequence)


def _check_pipes(datapipes):
    if not datapipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(pipe, MapDataPipe) for pipe in datapipes):
        raise TypeError("Expected all inputs to be `MapDataPipe`")


def _same(item):
    return item


@functional_datapipe("map")
class Mapper(MapDataPipe):
    """fn of each item."""

    def __init__(self, datapipe, fn=_same):
        _check_unpickable_fn(fn)
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index):
        return self.fn(self.datapipe[index])

    def __len__(self):
        return len(self.datapipe)


@functional_datapipe("batch")
class Batcher(MapDataPipe):
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

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(f"Index {index} is out of bound.")
        first = index * self.batch_size
        return self.wrapper_class(
            [self.datapipe[i] for i in range(first, min(first + self.batch_size, len(self.datapipe)))]
        )

    def __len__(self):
        whole, rest = divmod(len(self.datapipe), self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)


@functional_datapipe("concat")
class Concater(MapDataPipe):
    """One pipe after the other."""

    def __init__(self, *datapipes):
        _check_pipes(datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index):
        for datapipe in self.datapipes:
            if index < len(datapipe):
                return datapipe[index]
            index -= len(datapipe)
        raise IndexError("Index is out of range.")

    def __len__(self):
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class Zipper(MapDataPipe):
    """Tuples of one item of each pipe."""

    def __init__(self, *datapipes):
        _check_pipes(datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index):
        items = []
        for datapipe in self.datapipes:
            try:
                items.append(datapipe[index])
            except IndexError as error:
                raise IndexError(
                    f"Index {index} is out of range for one of the input MapDataPipes {datapipe}."
                ) from error
        return tuple(items)

    def __len__(self):
        return min(map(len, self.datapipes))


class Shuffler(IterDataPipe):
    """The items in an order by chance."""

    def __init__(self, datapipe, *, indices=None):
        import random

        self.datapipe, self.indices, self._enabled, self._seed = (
            datapipe,
            list(range(len(datapipe)) if indices is None else indices),
            True,
            None,
        )
        self._rng, self._shuffled_indices = random.Random(), list(self.indices)

    def set_shuffle(self, shuffle=True):
        self._enabled = shuffle
        return self

    def set_seed(self, seed):
        self._seed = seed
        return self

    def reset(self):
        if not self._enabled:
            return
        if self._seed is None:
            from taper.utils.data.sampler import _draw_seed

            self._seed = _draw_seed(None)
        self._rng.seed(self._seed)
        self._seed = None
        self._shuffled_indices = self._rng.sample(self.indices, len(self.indices))

    def __iter__(self):
        if not self._enabled:
            for index in self.indices:
                yield self.datapipe[index]
            return
        while self._shuffled_indices:
            yield self.datapipe[self._shuffled_indices.pop()]

    def __len__(self):
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function(
    "shuffle", Shuffler
)  # a step of these pipes, and itself one that is read in order
