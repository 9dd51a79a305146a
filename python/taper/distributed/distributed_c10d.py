"""torch.distributed.distributed_c10d: collectives and messages between the ranks of process groups (_process_group.py),
of tensors and of objects."""

import taper as torch
from taper.distributed._process_group import *  # noqa: F401,F403
from taper.distributed._process_group import (
    open_groups,
    _get_default_group,
    _get_default_store,
    _get_process_group_store,
    _group,
    _rank_not_in_group,
    _set_pg_timeout,
    _warn_not_in_group,
)  # noqa: F401
from taper.distributed._reduce_op import _make_nccl_premul_sum, _scaled  # noqa: F401
from taper.distributed._store import _seconds


def __getattr__(name):
    if name == "_pg_map":
        return open_groups()
    raise AttributeError(f"module 'torch.distributed.distributed_c10d' has no attribute '{name}'")


def _get_global_rank(group, rank):
    """The old name of get_global_rank."""
    import warnings

    warnings.warn(
        "torch.distributed.distributed_c10d._get_global_rank is deprecated please use "
        "torch.distributed.distributed_c10d.get_global_rank instead",
        FutureWarning,
        stacklevel=2,
    )
    return get_global_rank(group, rank)


def _broadcast_coalesced(process_group, tensors, buffer_size, src=0):
    """The tensors get the values of the group's rank src; they travel together, in parts of about buffer_size bytes."""
    from taper.nn.parallel._verify import broadcast_coalesced

    broadcast_coalesced(tensors, src, process_group, buffer_size)


# ---- Collectives ----


def _done(work, async_op):
    if async_op:
        return work
    work.wait()
    return None


def _root(group_, rank, group_rank, what, default=0):
    """A root's place in the group, from its rank in the job or in the group."""
    if group_rank is not None:
        if rank is not None:
            raise ValueError(f"Can't specify both group_{what} and {what}")
        if not 0 <= group_rank < group_.size():
            raise ValueError(f"Group rank {group_rank} is not part of group {group_}")
        return group_rank
    return get_group_rank(group_, default if rank is None else rank)


def _check_tensor(value, name):
    if not isinstance(value, torch.Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )


def _check_list(value, name):
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, torch.Tensor) for item in value):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(value)} with elements of type "
            f"{[type(item) for item in value] if isinstance(value, (list, tuple)) else []}."
        )


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """The tensor of rank `src` becomes everybody's."""
    _check_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("broadcast")
    g = _group(group)
    return _done(Work(g._handle.broadcast(tensor, _root(g, src, group_src, "src")), [tensor]), async_op)


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Everybody's tensors combined, in place."""
    _check_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_reduce")
    _scaled([tensor], op, in_place=True)
    return _done(Work(_group(group)._handle.all_reduce(tensor, op), [tensor]), async_op)


class _Together:
    """Several works as one."""

    def __init__(self, works):
        self._works = works

    def wait(self, seconds):
        return all([work.wait(seconds) for work in self._works])

    def done(self):
        return all([work.done() for work in self._works])

    def succeeded(self):
        return all([work.succeeded() for work in self._works])

    def error(self):
        return next((work.error() for work in self._works if work.error() is not None), None)

    def source(self):
        return self._works[-1].source()


def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    _check_list(tensors, "tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_reduce_coalesced")
    handle = _group(group)._handle
    return _done(Work(_Together([handle.all_reduce(tensor, op) for tensor in tensors]), list(tensors)), async_op)


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """Everybody's tensors combined, at rank `dst`."""
    _check_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("reduce")
    g = _group(group)
    _scaled([tensor], op, in_place=True)
    return _done(Work(g._handle.reduce(tensor, op, _root(g, dst, group_dst, "dst")), [tensor]), async_op)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Everybody's tensors, at everybody."""
    _check_list(tensor_list, "tensor_list")
    _check_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather")
    return _done(Work(_group(group)._handle.all_gather(tensor_list, tensor), list(tensor_list)), async_op)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """The same into one tensor, one after the other."""
    _check_tensor(output_tensor, "output_tensor")
    _check_tensor(input_tensor, "input_tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather_into_tensor")
    return _done(Work(_group(group)._handle.all_gather_into(output_tensor, input_tensor), [output_tensor]), async_op)


_all_gather_base = all_gather_single = all_gather_into_tensor


def all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False):
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather_coalesced")
    handle = _group(group)._handle
    works = [handle.all_gather(outputs, tensor) for outputs, tensor in zip(output_tensor_lists, input_tensor_list)]
    return _done(Work(_Together(works), [t for outputs in output_tensor_lists for t in outputs]), async_op)


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """Everybody's tensors, at rank `dst`."""
    _check_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("gather")
    g = _group(group)
    root = _root(g, dst, group_dst, "dst")
    if g.rank() == root:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        _check_list(gather_list, "gather_list")
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    return _done(Work(g._handle.gather(gather_list or [], tensor, root), list(gather_list or [])), async_op)


def gather_into_tensor(output_tensor, input_tensor, dst=None, group=None, async_op=False, group_dst=None):
    """The same into one tensor."""
    g = _group(group)
    here = g.rank() == _root(g, dst, group_dst, "dst")
    return gather(
        input_tensor, list(output_tensor.view(-1).chunk(g.size())) if here else None, dst, group, async_op, group_dst
    )


gather_single = gather_into_tensor


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Of rank `src`'s list, each rank gets the tensor of its place."""
    _check_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("scatter")
    g = _group(group)
    root = _root(g, src, group_src, "src")
    if g.rank() == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        _check_list(scatter_list, "scatter_list")
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    return _done(Work(g._handle.scatter(tensor, scatter_list or [], root), [tensor]), async_op)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Everybody's lists combined; each rank gets the tensor of its place."""
    _check_tensor(output, "output")
    _check_list(input_list, "input_list")
    if _rank_not_in_group(group):
        return _warn_not_in_group("reduce_scatter")
    return _done(Work(_group(group)._handle.reduce_scatter(output, _scaled(input_list, op), op), [output]), async_op)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """The same of one tensor, in as many parts as there are ranks."""
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    if _rank_not_in_group(group):
        return _warn_not_in_group("reduce_scatter_tensor")
    return _done(Work(_group(group)._handle.reduce_scatter_of(output, _scaled([input], op)[0], op), [output]), async_op)


_reduce_scatter_base = reduce_scatter_single = reduce_scatter_tensor


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Each rank sends its list's tensors to the ranks of their places."""
    _check_list(output_tensor_list, "output_tensor_list")
    _check_list(input_tensor_list, "input_tensor_list")
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_to_all")
    return _done(
        Work(_group(group)._handle.all_to_all(output_tensor_list, input_tensor_list), list(output_tensor_list)),
        async_op,
    )


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """The same of one tensor, cut along its first dimension."""
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_to_all_single")
    return _done(
        Work(
            _group(group)._handle.all_to_all_single(output, input, output_split_sizes or (), input_split_sizes or ()),
            [output],
        ),
        async_op,
    )


def barrier(group=None, async_op=False, device_ids=None):
    """Waits until all ranks are there."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("barrier")
    return _done(Work(_group(group)._handle.barrier(), []), async_op)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """A barrier that fails, naming the ranks that have not come, when the time is up."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("monitored_barrier")
    g = _group(group)
    seconds = _seconds(timeout, default_pg_timeout.total_seconds())
    token, flag = torch.zeros(1, dtype=torch.uint8, device="cpu"), torch.zeros(1, dtype=torch.uint8, device="cpu")
    if g.rank() != 0:
        sent, answer = g._handle.send(token, 0, _BARRIER_TAG), g._handle.recv(flag, 0, _BARRIER_TAG)
        try:
            sent.wait(seconds)
            answer.wait(seconds * 2)
        except DistBackendError as error:
            raise RuntimeError(
                f"Rank {g._ranks[g.rank()]} successfully reached monitoredBarrier, but received errors while waiting "
                "for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n"
                " Original exception:\n"
                f"{error}"
            ) from None
        if flag.item():
            raise RuntimeError(
                f"Rank {g._ranks[g.rank()]}: monitored_barrier failed, other ranks have not come to it; rank 0 names "
                "them."
            )
        return None
    from time import monotonic

    came, missing, until = (
        [None]
        + [
            g._handle.recv(torch.zeros(1, dtype=torch.uint8, device="cpu"), r, _BARRIER_TAG) for r in range(1, g.size())
        ],
        [],
        monotonic() + seconds,
    )
    for rank in range(1, g.size()):
        try:
            came[rank].wait(max(until - monotonic(), 0.001))
        except DistBackendError:
            missing.append(rank)
            if not wait_all_ranks:
                break
    flag.fill_(len(missing) > 0)
    for work in [g._handle.send(flag, r, _BARRIER_TAG) for r in range(1, g.size()) if r not in missing]:
        work.wait(seconds)
    if missing:
        names = ", ".join(str(g._ranks[r]) for r in missing)
        raise RuntimeError(
            f"Rank{'s' if len(missing) > 1 else ''} {names} failed to pass monitoredBarrier in {int(seconds * 1000)} ms"
        )
    return None


_BARRIER_TAG = (1 << 20) - 1

# ---- Messages from one rank to another ----


def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Begins to send to a rank."""
    _check_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("isend")
    g = _group(group)
    if dst is None and group_dst is None:
        raise ValueError("Must specify dst or group_dst")
    to = _root(g, dst, group_dst, "dst")
    if to == g.rank():
        raise ValueError(
            "Invalid destination rank: destination rank should not be the same as the rank of the current process."
        )
    return Work(g._handle.send(tensor, to, tag), [tensor])


def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    """Begins to receive from a rank, or from whoever is first."""
    _check_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("irecv")
    g = _group(group)
    anybody = src is None and group_src is None
    return Work(g._handle.recv(tensor, -1 if anybody else _root(g, src, group_src, "src"), tag), [tensor])


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Sends to a rank."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receives from a rank, or from whoever is first: whose it was."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return get_global_rank(_group(group), work.source_rank())


class P2POp:
    """A send or receive for batch_isend_irecv."""

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        _check_tensor(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, _group(group), tag
        self.group_peer = _root(self.group, peer, group_peer, "peer")
        self.peer = get_global_rank(self.group, self.group_peer)

    def __repr__(self):
        return (
            f"P2POp({self.op.__name__} pg={self.group.group_name}, group_peer={self.group_peer}, "
            f"{tuple(self.tensor.shape)}, {self.tensor.dtype})"
        )


def batch_isend_irecv(p2p_op_list):
    """Begins sends and receives together."""
    if not isinstance(p2p_op_list, list) or not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    works = [
        p.op(p.tensor, group=p.group, tag=p.tag, **{"group_src" if p.op is irecv else "group_dst": p.group_peer})
        for p in p2p_op_list
    ]
    return [work for work in works if work is not None]


# ---- Objects, pickled ----


def _to_tensor(obj):
    import pickle

    data = pickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8), torch.tensor(
        [len(data)], dtype=torch.int64, device="cpu"
    )


def _to_object(tensor, size):
    import pickle

    return pickle.loads(memoryview(tensor)[: int(size)])


def all_gather_object(object_list, obj, group=None):
    """Everybody's objects, at everybody."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather_object")
    data, size = _to_tensor(obj)
    sizes = [torch.zeros(1, dtype=torch.int64, device="cpu") for _ in range(get_world_size(group))]
    all_gather(sizes, size, group)
    tensors = [torch.empty(int(n), dtype=torch.uint8, device="cpu") for n in sizes]
    all_gather(tensors, data, group)
    for i, tensor in enumerate(tensors):
        object_list[i] = _to_object(tensor, sizes[i])
    return None


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    """Everybody's objects, at rank `dst`."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("gather_object")
    g = _group(group)
    root = _root(g, dst, group_dst, "dst")
    if g.rank() == root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if g.rank() != root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    data, size = _to_tensor(obj)
    sizes = [torch.zeros(1, dtype=torch.int64, device="cpu") for _ in range(g.size())]
    all_gather(sizes, size, group)
    most = max(int(n) for n in sizes)
    padded = torch.zeros(most, dtype=torch.uint8, device="cpu")
    padded[: len(data)] = data
    tensors = (
        [torch.empty(most, dtype=torch.uint8, device="cpu") for _ in range(g.size())] if g.rank() == root else None
    )
    gather(padded, tensors, group=group, group_dst=root)
    for i, tensor in enumerate(tensors or ()):
        object_gather_list[i] = _to_object(tensor, sizes[i])
    return None


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    """Rank `src`'s objects become everybody's."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("broadcast_object_list")
    g = _group(group)
    root = _root(g, src, group_src, "src")
    pairs = [_to_tensor(obj) for obj in object_list] if g.rank() == root else None
    sizes = (
        torch.cat([size for _, size in pairs])
        if pairs
        else torch.zeros(len(object_list), dtype=torch.int64, device="cpu")
    )
    broadcast(sizes, group=group, group_src=root)
    data = (
        torch.cat([part for part, _ in pairs])
        if pairs
        else torch.empty(int(sizes.sum()), dtype=torch.uint8, device="cpu")
    )
    broadcast(data, group=group, group_src=root)
    if g.rank() != root:
        for i, part in enumerate(data.split([int(n) for n in sizes])):
            object_list[i] = _to_object(part, len(part))
    return None


def scatter_object_list(
    scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None
):
    """Of rank `src`'s list, each rank gets the object of its place."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("scatter_object_list")
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    g = _group(group)
    root = _root(g, src, group_src, "src")
    pairs = [_to_tensor(obj) for obj in scatter_object_input_list] if g.rank() == root else []
    most = torch.tensor([max((int(n) for _, n in pairs), default=0)], device="cpu")
    broadcast(most, group=group, group_src=root)
    padded = [
        torch.cat([part, torch.zeros(int(most) - len(part), dtype=torch.uint8, device="cpu")]) for part, _ in pairs
    ]
    mine, size = (
        torch.empty(int(most), dtype=torch.uint8, device="cpu"),
        torch.zeros(1, dtype=torch.int64, device="cpu"),
    )
    scatter(mine, padded or None, group=group, group_src=root)
    scatter(size, [n for _, n in pairs] or None, group=group, group_src=root)
    scatter_object_output_list[0] = _to_object(mine, size)
    return None


def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
    """Sends objects to a rank."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("send_object_list")
    pairs = [_to_tensor(obj) for obj in object_list]
    send(torch.cat([size for _, size in pairs]), dst, group, group_dst=group_dst)
    send(torch.cat([part for part, _ in pairs]), dst, group, group_dst=group_dst)
    return None


def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
    """Receives as many objects as the list has places: whose they were."""
    if _rank_not_in_group(group):
        _warn_not_in_group("recv_object_list")
        return -1
    sizes = torch.zeros(len(object_list), dtype=torch.int64, device="cpu")
    sender = recv(sizes, src, group, group_src=group_src)
    data = torch.empty(int(sizes.sum()), dtype=torch.uint8, device="cpu")
    recv(data, sender, group)
    for i, part in enumerate(data.split([int(n) for n in sizes])):
        object_list[i] = _to_object(part, len(part))
    return sender


class _coalescing_manager:
    """Collectives inside of it are works of their own; they are waited for at its end unless async_ops."""

    def __init__(self, group=None, device=None, async_ops=False):
        self.works = []

    def __enter__(self):
        return self

    def append(self, work):
        if work:
            self.works.append(work)

    def wait(self):
        for work in self.works:
            work.wait()

    def __exit__(self, *error):
        self.wait()


__all__ = [name for name, value in list(globals().items()) if name[0] != "_" and not isinstance(value, type(torch))]
