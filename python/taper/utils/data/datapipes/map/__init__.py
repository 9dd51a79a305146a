"""torch.utils.data.datapipes.map: the steps of pipes whose items have indices."""
from taper.utils.data.datapipes._decorator import functional_datapipe
from taper.utils.data.datapipes.datapipe import DataChunk, IterDataPipe, MapDataPipe

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


@functional_datapipe("map")
class Mapper(MapDataPipe):
    """fn of each item."""

    def __init__(self, datapipe, fn):
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
        self.datapipe, self.batch_size, self.drop_last, self.wrapper_class = datapipe, batch_size, drop_last, wrapper_class

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(f"Index {index} is out of bound.")
        first = index * self.batch_size
        return self.wrapper_class([self.datapipe[i] for i in range(first, min(first + self.batch_size, len(self.datapipe)))])

    def __len__(self):
        whole, rest = divmod(len(self.datapipe), self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)


@functional_datapipe("concat")
class Concater(MapDataPipe):
    """One pipe after the other."""

    def __init__(self, *datapipes):
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
        self.datapipes = datapipes

    def __getitem__(self, index):
        return tuple(datapipe[index] for datapipe in self.datapipes)

    def __len__(self):
        return min(map(len, self.datapipes))


class Shuffler(IterDataPipe):
    """The items in an order by chance."""

    def __init__(self, datapipe, *, indices=None):
        self.datapipe, self.indices, self._enabled, self._seed = datapipe, list(range(len(datapipe)) if indices is None else indices), True, None

    def set_shuffle(self, shuffle=True):
        self._enabled = shuffle
        return self

    def set_seed(self, seed):
        self._seed = seed
        return self

    def __iter__(self):
        import random
        order = self.indices
        if self._enabled:
            if self._seed is None:
                from taper.utils.data.sampler import _draw_seed
                self._seed = _draw_seed(None)
            order = random.Random(self._seed).sample(order, len(order))
            self._seed = None
        for index in order:
            yield self.datapipe[index]

    def __len__(self):
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", Shuffler)  # a step of these pipes, and itself one that is read in order
