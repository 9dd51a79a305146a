"""torch.distributed.tensor.experimental: plain tensors beside DTensors, and functions on parts."""

from contextlib import contextmanager

from taper.distributed.tensor._dtensor import DTensor, _implicit

__all__ = ["implicit_replication", "local_map"]


@contextmanager
def implicit_replication():
    """Inside, plain tensors count as what every rank has."""
    _implicit.append(True)
    try:
        yield
    finally:
        _implicit.pop()


def local_map(
    func=None,
    out_placements=None,
    in_placements=None,
    in_grad_placements=None,
    device_mesh=None,
    *,
    redistribute_inputs=False,
):
    """A function of plain tensors as one of DTensors: it gets each rank's parts, and its results lie as out_placements
    says (None: they stay plain)."""
    if func is None:
        return lambda func: local_map(
            func,
            out_placements,
            in_placements,
            in_grad_placements,
            device_mesh,
            redistribute_inputs=redistribute_inputs,
        )

    def part(value, wanted, grads):
        if not isinstance(value, DTensor):
            return value
        if wanted is not None and tuple(wanted) != value.placements:
            if not redistribute_inputs:
                raise ValueError(
                    f"arg {value} in local_map has a mismatched placements: arg placements is {value.placements} but "
                    f"the input placements is {wanted}! If redistribute_inputs is wanted, set "
                    "redistribute_inputs=True to local_map."
                )
            value = value.redistribute(placements=wanted)
        return value.to_local(grad_placements=grads)

    def mapped(*args, **kwargs):
        mesh = device_mesh or next(value.device_mesh for value in args if isinstance(value, DTensor))
        wants, grads = in_placements or [None] * len(args), in_grad_placements or [None] * len(args)
        result = func(*[part(*three) for three in zip(args, wants, grads)], **kwargs)
        if not isinstance(result, (list, tuple)):
            one = (
                out_placements[0] if out_placements and isinstance(out_placements[0], (list, tuple)) else out_placements
            )
            return result if one is None else DTensor.from_local(result, mesh, one)
        return tuple(
            item if how is None else DTensor.from_local(item, mesh, how) for item, how in zip(result, out_placements)
        )

    return mapped
