"""Ranks that are to have the same tensors: are they of the same shapes, and one rank's values to all."""

import taper
from taper import _C
from taper import distributed as dist
from taper.autograd.grad_mode import no_grad


def _description(module, ignored):
    """A line per parameter and buffer: its name, shape and dtype."""
    return [
        (
            f"{kind} '{name}' {list(t.shape)} "
            f"{str(t.dtype)[6:]}{' frozen' if kind == 'parameter' and not t.requires_grad else ''}"
        )
        for kind, named in (("parameter", module.named_parameters()), ("buffer", module.named_buffers()))
        for name, t in named
        if name not in ignored
    ]


def verify_same(module, ignored, group):
    """An error that names the first parameter in which a rank differs from rank 0, and both ranks. One short exchange
    where all agree."""
    from hashlib import sha256

    lines = _description(module, ignored)
    digest = sha256("\n".join(lines).encode()).digest()
    mine = taper.tensor(list(digest), dtype=_C.uint8)
    world = dist.get_world_size(group)
    every = [taper.empty_like(mine) for _ in range(world)]
    dist.all_gather(every, mine, group=group)
    if all(bytes(one.tolist()) == digest for one in every):
        return
    said = [None] * world
    dist.all_gather_object(said, lines, group=group)
    for rank in range(1, world):
        if said[rank] == said[0]:
            continue
        i = next((i for i, (a, b) in enumerate(zip(said[0], said[rank])) if a != b), min(len(said[0]), len(said[rank])))
        first, other = (part[i] if i < len(part) else "nothing more" for part in (said[0], said[rank]))
        raise RuntimeError(
            f"DDP expects the same model on all ranks: rank {rank} has {other} where rank 0 has {first} "
            f"(rank 0 has {len(said[0])} parameters and buffers, rank {rank} {len(said[rank])})"
        )


def broadcast_coalesced(tensors, rank, group, most=250 << 20):
    """The tensors get the values that the given rank of the group has; many small ones travel together."""
    source = dist.get_global_rank(group, rank)
    waiting, size = {}, {}
    with no_grad():
        for t in tensors:
            key = (t.dtype, t.device)
            waiting.setdefault(key, []).append(t.detach())
            size[key] = size.get(key, 0) + t.numel() * t.element_size()
            if size[key] >= most:
                _together(waiting.pop(key), source, group)
                size.pop(key)
        for part in waiting.values():
            _together(part, source, group)


def _together(tensors, source, group):
    if len(tensors) == 1 and tensors[0].is_contiguous():
        dist.broadcast(tensors[0], source, group=group)
        return
    flat = taper.cat([t.reshape(-1) for t in tensors])
    dist.broadcast(flat, source, group=group)
    at = 0
    for t in tensors:
        t.copy_(flat[at : at + t.numel()].view(t.shape))
        at += t.numel()
