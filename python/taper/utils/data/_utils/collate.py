"""From samples to a batch: default_collate stacks tensors, arrays and numbers inside whatever containers the samples
are made of; default_convert makes tensors of a single sample's arrays."""

from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from copy import copy

from taper import _C
from taper._C import Tensor
from taper.storage import _on_storage

INLINE_BYTES = 1 << 15  # what workers send through their socket; larger data goes through shared memory
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def _rebuilt(like, items, keys=None):
    """A container of like's type with other items: a copy that is filled, else a new one, else a plain dict or list
    where the type cannot be made so."""
    if keys is not None:
        items = dict(zip(keys, items))
    try:
        if isinstance(like, MutableMapping if keys is not None else MutableSequence):
            made = copy(like)
            if keys is not None:
                made.update(items)
            else:
                for i, item in enumerate(items):
                    made[i] = item
            return made
        return type(like)(items)
    except TypeError:
        return items


def _holds_no_numbers(array):
    """Is it an array of text or of objects?"""
    return array.dtype.kind in "SUO"


def default_convert(data):
    """NumPy's arrays and numbers become tensors, inside containers too; everything else stays."""
    kind = type(data)
    if isinstance(data, Tensor):
        return data
    if kind.__module__ == "numpy" and kind.__name__ not in ("str_", "string_", "bytes_"):
        return data if kind.__name__ == "ndarray" and _holds_no_numbers(data) else _C.as_tensor(data)
    if isinstance(data, Mapping):
        return _rebuilt(data, [default_convert(data[key]) for key in data], list(data))
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return kind(*[default_convert(item) for item in data])
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _rebuilt(data, [default_convert(item) for item in data])
    return data


def _function_for(sample, functions):
    """The function of the map that collates samples like this one; its exact type goes before the types it is an
    instance of."""
    if type(sample) in functions:
        return functions[type(sample)]
    return next((functions[kind] for kind in functions if isinstance(sample, kind)), None)


def collate(batch, *, collate_fn_map=None):
    """A batch of the samples. collate_fn_map says how, by type: function(batch, collate_fn_map=...); containers are
    gone into."""
    first = batch[0]
    function = _function_for(first, collate_fn_map) if collate_fn_map is not None else None
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)

    def each(columns):
        return [collate(column, collate_fn_map=collate_fn_map) for column in columns]

    if isinstance(first, Mapping):
        return _rebuilt(first, each([sample[key] for sample in batch] for key in first), list(first))
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*each(zip(*batch)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = each(zip(*batch))
        return columns if isinstance(first, tuple) else _rebuilt(first, columns)
    raise TypeError(default_collate_err_msg_format.format(type(first)))


def _shared_batch(batch):
    """In a worker: room in shared memory for large tensors in a batch, so that they need not be copied there; None
    elsewhere."""
    from taper.utils.data._utils import worker

    first = batch[0]
    size = len(batch) * first.numel() * first.itemsize
    if worker.get_worker_info() is None or size <= INLINE_BYTES:
        return None
    if not all(
        type(t) is Tensor and t.dtype == first.dtype and t.shape == first.shape and not t.requires_grad for t in batch
    ):
        return None
    memory = worker.pool.get(size)
    if memory is None:  # there is no room: it goes another way
        return None
    whole = _on_storage(first.dtype, memory, 0, (size // first.itemsize,), (1,))
    return whole.reshape(len(batch), *first.shape)


def collate_tensor_fn(batch, *, collate_fn_map=None):
    return _C._functions["stack"](batch, 0, out=_shared_batch(batch))


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    if _holds_no_numbers(batch[0]):
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return collate([_C.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    return _C.as_tensor(batch)


def collate_float_fn(batch, *, collate_fn_map=None):
    return _C.tensor(batch, dtype=_C.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    return _C.tensor(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    return batch


class _NumPyType(type):
    """Stands for types of NumPy's, which is not imported for their sake: samples of theirs can only come once it is."""

    def __instancecheck__(cls, instance):
        import sys

        numpy = sys.modules.get("numpy")
        return numpy is not None and isinstance(instance, tuple(getattr(numpy, name) for name in cls.names))


_Array = _NumPyType("ndarray", (), {"names": ("ndarray",)})
_Number = _NumPyType("number", (), {"names": ("bool_", "number")})
default_collate_fn_map = {
    Tensor: collate_tensor_fn,
    _Array: collate_numpy_array_fn,
    _Number: collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch):
    """Stacks the samples' tensors, arrays and numbers along a new first dimension; text stays in lists."""
    return collate(batch, collate_fn_map=default_collate_fn_map)
