"""torch.utils.data.datapipes.datapipe: the two kinds of pipes, which steps derive from."""
from functools import partial

from taper.utils.data.dataset import Dataset, IterableDataset

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]


class _Steps:
    """Steps by name: pipe.batch(2) is Batcher(pipe, 2)."""

    def __getattr__(self, name):
        step = None if name.startswith("__") else self.functions.get(name)
        if step is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return partial(step, self)

    @classmethod
    def register_function(cls, function_name, function):
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name, cls_to_register, enable_df_api_tracing=False):
        """Makes a class the step of that name."""
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.functions[function_name] = cls_to_register

    def __repr__(self):
        return type(self).__qualname__

    __str__ = __repr__

    def __getstate__(self):
        return self.__dict__

    def __setstate__(self, state):
        self.__dict__.update(state)


class IterDataPipe(_Steps, IterableDataset):
    """A pipe that is read from its beginning to its end."""
    functions = {}

    def reset(self):
        """Called before each reading; for subclasses."""


class DFIterDataPipe(IterDataPipe):
    """One whose items are data frames."""

    def _is_dfpipe(self):
        return True


class MapDataPipe(_Steps, Dataset):
    """A pipe whose items have indices."""
    functions = {}


class DataChunk(list):
    """What a batch is where nothing has collated it."""

    def __init__(self, items):
        super().__init__(items)
        self.items = items

    def as_str(self, indent=""):
        return indent + "[" + ", ".join(map(str, self)) + "]"

    def raw_iterator(self):
        yield from self.items


class _Wrapped:
    """A pipe on its way to another process."""

    def __init__(self, datapipe):
        self._datapipe = datapipe

    def __iter__(self):
        yield from self._datapipe

    def __getitem__(self, index):
        return self._datapipe[index]

    def __len__(self):
        return len(self._datapipe)


class _IterDataPipeSerializationWrapper(_Wrapped, IterDataPipe):
    pass


class _MapDataPipeSerializationWrapper(_Wrapped, MapDataPipe):
    pass
