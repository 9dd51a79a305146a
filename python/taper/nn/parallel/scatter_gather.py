"""torch.nn.parallel.scatter_gather: batches cut over devices, results put together again; both can be
differentiated."""

import taper
from taper._C import Tensor

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _name(device):
    return f"cuda:{device}" if isinstance(device, int) else device


def _like(value, items):
    """A list, tuple or named tuple of the same kind."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*items)
    return type(value)(items)


def to_device(value, device):
    """Every tensor in lists, tuples and dicts on that device."""
    if isinstance(value, Tensor):
        return value.to(_name(device))
    if isinstance(value, dict):
        return {key: to_device(item, device) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return _like(value, [to_device(item, device) for item in value])
    return value


def scatter(inputs, target_gpus, dim=0):
    """One value per device: tensors are cut along dim, everything else is handed to all."""
    n = len(target_gpus)
    if isinstance(inputs, Tensor):
        return [part.to(_name(device)) for part, device in zip(inputs.chunk(n, dim), target_gpus)]
    if isinstance(inputs, dict) and inputs:
        return [
            dict(zip(inputs, values))
            for values in zip(*(scatter(value, target_gpus, dim) for value in inputs.values()))
        ]
    if isinstance(inputs, (list, tuple)) and len(inputs):
        return [_like(inputs, values) for values in zip(*(scatter(value, target_gpus, dim) for value in inputs))]
    return [inputs] * n


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """Arguments and keywords for each device, as many as there are parts of the batch."""
    parts = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(parts), len(named), 1)
    return (
        tuple(tuple(part) for part in parts) + ((),) * (count - len(parts)),
        tuple(named) + ({},) * (count - len(named)),
    )


def gather(outputs, target_device, dim=0):
    """The results of all devices as one, on the given device."""
    first = outputs[0]
    if isinstance(first, Tensor):
        moved = [output.to(_name(target_device)) for output in outputs]
        return taper.cat(moved, dim) if first.dim() else taper.stack(moved)
    if first is None:
        return None
    if isinstance(first, dict):
        if not all(len(output) == len(first) for output in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([output[key] for output in outputs], target_device, dim)) for key in first)
    return _like(first, [gather(parts, target_device, dim) for parts in zip(*outputs)])
