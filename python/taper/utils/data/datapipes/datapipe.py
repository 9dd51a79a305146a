"""torch.utils.data.datapipes.datapipe: the two kinds of pipes, which steps derive from."""

from functools import partial

from taper.utils.data.dataset import Dataset, IterableDataset
from taper.utils.data.datapipes._hook_iterator import _SnapshotState, hooked

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]


class _Steps:
    """Steps by name: pipe.batch(2) is Batcher(pipe, 2)."""

    def __getattr__(self, name):
        step = None if name.startswith("__") else self.functions.get(name)
        if step is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        call = partial(step, self)
        call.__doc__ = _doc(name, step)
        return call

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
        return {
            key: value
            for key, value in self.__dict__.items()
            if key not in ("_fast_forward_iterator", "_snapshot_state")
        }

    def __setstate__(self, state):
        self.__dict__.update(state)


def _doc(name, step):
    """A step's doc as that of the method, with its arguments and a call."""
    import inspect

    arguments = list(inspect.signature(step).parameters.values())
    listed = "\n".join(f"    {argument}" for argument in arguments)
    given = ", ".join(a.name for a in arguments[1:] if a.default is a.empty and a.kind is a.POSITIONAL_OR_KEYWORD)
    return (
        f"{step.__doc__} (functional name: ``{name}``)\n\nArgs:\n{listed}\n\nExample:\n    >>> pipe = "
        f"pipe.{name}({given})\n"
    )


class IterDataPipe(_Steps, IterableDataset):
    """A pipe that is read from its beginning to its end."""

    functions = {}
    _valid_iterator_id = None
    _number_of_samples_yielded = 0
    _snapshot_state = _SnapshotState.NotStarted
    _fast_forward_iterator = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "__iter__" in cls.__dict__ and not hasattr(cls.__dict__["__iter__"], "_is_hooked"):
            cls.__iter__ = hooked(cls.__dict__["__iter__"])

    def __iter__(self):
        return self

    def reset(self):
        """Called before each reading; for subclasses."""

    def _next_reading(self, fresh):
        """The number of the reading that begins; a fresh one starts from the beginning."""
        if self._valid_iterator_id is None:
            self._valid_iterator_id = 0
        elif fresh:
            self._valid_iterator_id += 1
        if fresh:
            self.reset()
        return self._valid_iterator_id

    def _is_valid(self, number):
        return number == self._valid_iterator_id


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

    def __getitem__(self, index):
        return self._datapipe[index]

    def __len__(self):
        return len(self._datapipe)


class _IterDataPipeSerializationWrapper(_Wrapped, IterDataPipe):
    def __iter__(self):
        yield from self._datapipe


class _MapDataPipeSerializationWrapper(_Wrapped, MapDataPipe):
    pass
