"""Pinned memory: batches that an accelerator copies by itself."""

from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from copy import copy

from taper._C import Tensor


def pin_memory(data, device=None):
    """The data with its tensors in pinned memory; objects with a method pin_memory() do it themselves."""
    if isinstance(data, Tensor):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, Mapping):
        items = {key: pin_memory(value, device) for key, value in data.items()}
        return _like(data, items, MutableMapping)
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(value, device) for value in data))
    if isinstance(data, tuple):
        return [pin_memory(value, device) for value in data]  # a list, as PyTorch has it
    if isinstance(data, Sequence):
        return _like(data, [pin_memory(value, device) for value in data], MutableSequence)
    return data


def _like(data, items, changeable):
    """The items in a container like the one they came from, where one can be made."""
    try:
        if not isinstance(data, changeable):
            return type(data)(items)
        made = copy(data)
        if isinstance(items, dict):
            made.update(items)
        else:
            made[:] = items
        return made
    except TypeError:
        return items
