"""torch.cuda.comm: tensors between the GPUs of one process."""

from taper import _C
from taper._gpu.devices import index_of

__all__ = ["broadcast", "broadcast_coalesced", "reduce_add", "reduce_add_coalesced", "scatter", "gather"]


def _gpu(device):
    return _C.device("cuda", index_of("cuda", device))


def broadcast(tensor, devices=None, *, out=None):
    """The tensor on each of the devices."""
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and out={out}"
        )
    if out is not None:
        return tuple(each.copy_(tensor, non_blocking=True) for each in out)
    return tuple(tensor.to(_gpu(device), non_blocking=True) for device in devices)


def broadcast_coalesced(tensors, devices, buffer_size=10485760):
    """Each of the tensors on each of the devices."""
    tensors = list(tensors)
    return tuple(tuple(t.to(_gpu(device), non_blocking=True) for t in tensors) for device in devices)


def reduce_add(inputs, destination=None):
    """The sum of tensors on several GPUs, on one of them."""
    inputs = list(inputs)
    if any(t.shape != inputs[0].shape for t in inputs):
        got = next(t.shape for t in inputs if t.shape != inputs[0].shape)
        raise ValueError(
            f"input {[t.shape for t in inputs].index(got)} has invalid size: got {'x'.join(map(str, got))}, but "
            f"expected {'x'.join(map(str, inputs[0].shape))}"
        )
    place = _gpu(destination)
    first = next((i for i, t in enumerate(inputs) if t.device == place), None)
    if first is None:
        raise RuntimeError("reduce_add expects destination to be on the same GPU with one of the tensors")
    total = inputs[first]
    for i, t in enumerate(inputs):
        if i != first:
            total = total + t.to(place, non_blocking=True)
    return total


def reduce_add_coalesced(inputs, destination=None, buffer_size=10485760):
    """Sums of several tensors each."""
    return tuple(reduce_add(each, destination) for each in zip(*inputs))


def scatter(tensor, devices=None, chunk_sizes=None, dim=0, streams=None, *, out=None):
    """Pieces of the tensor along dim, one on each device."""
    if out is not None:
        pieces = tensor.split([each.shape[dim] for each in out], dim)
        return tuple(each.copy_(piece, non_blocking=True) for each, piece in zip(out, pieces))
    pieces = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    return tuple(piece.contiguous().to(_gpu(device), non_blocking=True) for piece, device in zip(pieces, devices))


def gather(tensors, dim=0, destination=None, *, out=None):
    """Tensors on several GPUs put together along dim, on one GPU or on the CPU ('cpu', or -1)."""
    from taper import cat

    if out is not None:
        return out.copy_(cat([t.to(out.device) for t in tensors], dim))
    cpu = destination == -1 or getattr(destination, "type", destination) == "cpu"
    place = _C.device("cpu") if cpu else _gpu(destination)
    return cat([t.to(place, non_blocking=not cpu) for t in tensors], dim)
