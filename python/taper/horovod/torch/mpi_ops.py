"""horovod.torch.mpi_ops: ranks and collectives. An asynchronous call gives a handle; synchronize(handle) waits for it
and gives its result."""

import os

import taper
from taper import _C
from taper import distributed as dist
from taper.autograd.function import Function
from taper.autograd.grad_mode import no_grad
from taper.distributed import _alone
from taper.distributed._alone import join_world
from taper.horovod.torch.compression import Compression

# Reductions, by Horovod's names.
Average, Sum, Adasum, Min, Max, Product = "Average", "Sum", "Adasum", "Min", "Max", "Product"


class ProcessSet:
    """Some of the ranks, with collectives of their own."""

    def __init__(self, ranks_or_comm=None):
        self.ranks, self.group = ranks_or_comm, None

    def included(self):
        return self.ranks is None or dist.get_rank() in self.ranks

    def rank(self):
        return dist.get_rank(self.group)

    def size(self):
        return dist.get_world_size(self.group)


global_process_set = ProcessSet()


def add_process_set(process_set):
    """All ranks make a set together."""
    made = process_set if isinstance(process_set, ProcessSet) else ProcessSet(list(process_set))
    made.group = dist.new_group(list(made.ranks))
    return made


def remove_process_set(process_set):
    """The set's ranks stop being one."""
    process_set.group = None
    return True


# ---- Who is there ----
_own_group = False


def init(comm=None, process_sets=None):
    """Joins the world of the launcher's variables; a process by itself is a world of one."""
    global _own_group
    _own_group = join_world() or _own_group
    for process_set in process_sets or ():
        add_process_set(process_set)


def shutdown():
    if dist.is_initialized() and _own_group:
        dist.destroy_process_group()


def is_initialized():
    return dist.is_initialized()


def _checked():
    if not dist.is_initialized():
        raise ValueError("Horovod has not been initialized; use hvd.init().")


def rank():
    _checked()
    return dist.get_rank()


def size():
    _checked()
    return dist.get_world_size()


def _number(names, otherwise):
    return next((int(os.environ[name]) for name in names.split() if os.environ.get(name, "").isdigit()), otherwise)


def local_rank():
    """The number of this process on its node."""
    _checked()
    return _alone.local_rank()


def local_size():
    _checked()
    known = _C._dist_place()[4]
    return known if known > 0 else size()


def cross_rank():
    """The number of this node."""
    return _number("GROUP_RANK SLURM_NODEID", rank() // local_size())


def cross_size():
    return _number("GROUP_WORLD_SIZE SLURM_NNODES", -(-size() // local_size()))


def is_homogeneous():
    return size() % local_size() == 0


def mpi_threads_supported():
    return mpi_built()


def mpi_built(verbose=False):
    return dist.is_mpi_available()


def gloo_built(verbose=False):
    return dist.is_gloo_available()


def nccl_built(verbose=False):
    return int(dist.is_nccl_available())


def mpi_enabled():
    return dist.is_initialized() and dist.get_backend() == "mpi"


def gloo_enabled():
    return dist.is_initialized() and dist.get_backend() == "gloo"


def cuda_built(verbose=False):
    return taper.cuda.is_available()


def rocm_built(verbose=False):
    return False


def ddl_built(verbose=False):
    return False


def ccl_built(verbose=False):
    return False


def start_timeline(file_path, mark_cycles=False):
    """Horovod's own trace: torch.profiler has one of everything."""


def stop_timeline():
    pass


# ---- Handles ----
class _Handle:
    """A call under way: its work, and how its result is made once that is done."""

    def __init__(self, work, finish):
        self.work, self.finish, self.value, self.done = work, finish, None, False

    def wait(self):
        if not self.done:
            for work in self.work:
                if work is not None:
                    work.wait()
            with no_grad():
                self.value, self.done, self.finish = self.finish(), True, None
        return self.value


def synchronize(handle):
    """Waits for a call and gives its result."""
    return handle.wait()


def poll(handle):
    """Is the call done?"""
    return handle.done or all(work is None or work.is_completed() for work in handle.work)


def _group(process_set):
    return process_set.group if process_set is not None else None


def _reduction(average, op):
    if average is not None and op is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    return op if op is not None else Average if average in (None, True) else Sum


def _start_reduce(tensor, op, group, before, after):
    """Reduces a copy or the tensor itself in place: its work, and what remains to be done to it."""
    kind = {
        Average: dist.ReduceOp.SUM,
        Adasum: dist.ReduceOp.SUM,
        Sum: dist.ReduceOp.SUM,
        Min: dist.ReduceOp.MIN,
        Max: dist.ReduceOp.MAX,
        Product: dist.ReduceOp.PRODUCT,
    }[op]
    if op == Adasum:
        return None, lambda: _adasum(tensor, group)
    if before != 1.0:
        tensor.mul_(before)
    work = dist.all_reduce(tensor, kind, group=group, async_op=True)

    def finish():
        if op == Average:
            if tensor.is_floating_point() or tensor.is_complex():
                tensor.div_(dist.get_world_size(group))
            else:
                tensor.copy_(taper.div(tensor, dist.get_world_size(group), rounding_mode="trunc"))
        return tensor.mul_(after) if after != 1.0 else tensor

    return work, finish


def _adasum(tensor, group):
    """Horovod's adaptive sum: pairs of ranks, then pairs of pairs; what two gradients share in direction is counted
    once."""
    world = dist.get_world_size(group)
    parts = [taper.empty_like(tensor) for _ in range(world)]
    dist.all_gather(parts, tensor.contiguous(), group=group)
    while len(parts) > 1:
        paired = []
        for a, b in zip(parts[::2], parts[1::2]):
            dot, na, nb = (a * b).sum(), (a * a).sum(), (b * b).sum()
            paired.append(a * (1 - dot / (2 * na).clamp(min=1e-30)) + b * (1 - dot / (2 * nb).clamp(min=1e-30)))
        parts = paired + parts[len(paired) * 2 :]
    return tensor.copy_(parts[0])


def _reduce_handle(tensor, op, group, before, after, compression=Compression.none, in_place=False):
    with no_grad():
        travels, context = compression.compress(tensor.detach())
        own = in_place and travels.data_ptr() == tensor.data_ptr()
        travels = travels if own or travels.data_ptr() != tensor.data_ptr() else travels.clone()
        work, finish = _start_reduce(travels, op, group, before, after)

    def result():
        made = compression.decompress(finish(), context)
        if in_place and not own:
            tensor.detach().copy_(made)
        return tensor if in_place else made

    return _Handle([work], result)


# ---- Allreduce ----
class _AllReduce(Function):
    @staticmethod
    def forward(ctx, tensor, op, group, before, after):
        ctx.how = op, group, before, after
        return _reduce_handle(tensor, op, group, before, after).wait()

    @staticmethod
    def backward(ctx, grad):
        return _reduce_handle(grad, *ctx.how).wait(), None, None, None, None


def allreduce_async(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    return _reduce_handle(tensor, _reduction(average, op), _group(process_set), prescale_factor, postscale_factor)


def allreduce(
    tensor,
    average=None,
    name=None,
    compression=Compression.none,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
):
    """The average (or what op says) over all ranks, as a new tensor; it can be differentiated."""
    travels, context = compression.compress(tensor)
    reduced = _AllReduce.apply(travels, _reduction(average, op), _group(process_set), prescale_factor, postscale_factor)
    return compression.decompress(reduced, context)


def allreduce_async_(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    return _reduce_handle(
        tensor, _reduction(average, op), _group(process_set), prescale_factor, postscale_factor, in_place=True
    )


def allreduce_(
    tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    return allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set).wait()


def _together(handles):
    return _Handle([work for handle in handles for work in handle.work], lambda: [handle.wait() for handle in handles])


def grouped_allreduce_async(
    tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    return _together(
        [
            allreduce_async(tensor, average, name, op, prescale_factor, postscale_factor, process_set)
            for tensor in tensors
        ]
    )


def grouped_allreduce(
    tensors,
    average=None,
    name=None,
    compression=Compression.none,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
):
    return [
        allreduce(tensor, average, name, compression, op, prescale_factor, postscale_factor, process_set)
        for tensor in tensors
    ]


def grouped_allreduce_async_(
    tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    return _together(
        [
            allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set)
            for tensor in tensors
        ]
    )


def grouped_allreduce_(
    tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set
):
    return grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set).wait()


# ---- Allgather: ranks may have different numbers of rows ----
def _gather_rows(tensor, group):
    tensor = tensor.detach().reshape(1) if tensor.dim() == 0 else tensor.detach()
    world = dist.get_world_size(group)
    rows = [taper.zeros(1, dtype=taper.int64, device=tensor.device) for _ in range(world)]
    dist.all_gather(rows, taper.tensor([tensor.shape[0]], device=tensor.device), group=group)
    counts = [int(n.item()) for n in rows]
    padded = tensor.new_zeros((max(counts), *tensor.shape[1:]))
    padded[: tensor.shape[0]] = tensor
    parts = [taper.empty_like(padded) for _ in range(world)]
    work = dist.all_gather(parts, padded, group=group, async_op=True)
    return work, counts, lambda: taper.cat([part[:n] for part, n in zip(parts, counts)])


class _AllGather(Function):
    @staticmethod
    def forward(ctx, tensor, group):
        work, counts, finish = _gather_rows(tensor, group)
        work.wait()
        ctx.counts, ctx.group, ctx.shape = counts, group, tensor.shape
        return finish()

    @staticmethod
    def backward(ctx, grad):
        whole = _reduce_handle(grad, Sum, ctx.group, 1.0, 1.0).wait()
        return whole.split(ctx.counts)[dist.get_rank(ctx.group)].reshape(ctx.shape), None


def allgather_async(tensor, name=None, process_set=global_process_set):
    work, _, finish = _gather_rows(tensor, _group(process_set))
    return _Handle([work], finish)


def allgather(tensor, name=None, process_set=global_process_set):
    """The rows of all ranks, one after the other."""
    return _AllGather.apply(tensor, _group(process_set))


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    return _together([allgather_async(tensor, name, process_set) for tensor in tensors])


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    return [allgather(tensor, name, process_set) for tensor in tensors]


# ---- Broadcast ----
class _Broadcast(Function):
    @staticmethod
    def forward(ctx, tensor, root, group):
        ctx.root, ctx.group = root, group
        made = tensor.detach().clone()
        dist.broadcast(made, root, group=group)
        return made

    @staticmethod
    def backward(ctx, grad):
        whole = _reduce_handle(grad, Average, ctx.group, 1.0, 1.0).wait()
        return whole if dist.get_rank() == ctx.root else taper.zeros_like(whole), None, None


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    with no_grad():
        return _Handle(
            [dist.broadcast(tensor.detach(), root_rank, group=_group(process_set), async_op=True)], lambda: tensor
        )


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    return broadcast_async_(tensor.detach().clone(), root_rank, name, process_set)


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    return broadcast_async_(tensor, root_rank, name, process_set).wait()


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    """The root's tensor, on all ranks."""
    return _Broadcast.apply(tensor, root_rank, _group(process_set))


# ---- Alltoall and reducescatter ----
def _counts_to(splits, group):
    """How many rows come from each rank, where this one sends so many to each."""
    received = taper.empty_like(splits)
    dist.all_to_all_single(received, splits, group=group)
    return received


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    group = _group(process_set)
    world = dist.get_world_size(group)
    given = splits is not None
    splits = (
        taper.as_tensor(splits, dtype=taper.int64)
        if given
        else taper.full((world,), tensor.shape[0] // world, dtype=taper.int64)
    )
    if int(splits.sum()) != tensor.shape[0]:
        raise ValueError(f"alltoall: splits add up to {int(splits.sum())}, the tensor has {tensor.shape[0]} rows")
    received = _counts_to(splits, group)
    out = tensor.new_empty((int(received.sum()), *tensor.shape[1:]))
    work = dist.all_to_all_single(
        out, tensor.detach().contiguous(), received.tolist(), splits.tolist(), group=group, async_op=True
    )
    return _Handle([work], lambda: (out, received.to(taper.int32)) if given else out)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx, tensor, splits, process_set):
        given = splits is not None
        result = alltoall_async(tensor, splits, None, process_set).wait()
        out, ctx.received = result if given else (result, None)
        ctx.process_set = process_set
        if not given:
            return out
        ctx.mark_non_differentiable(ctx.received)
        return out, ctx.received

    @staticmethod
    def backward(ctx, grad, *_):
        back = alltoall_async(grad, ctx.received, None, ctx.process_set).wait()
        return (back[0] if isinstance(back, tuple) else back), None, None


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """Row blocks to all ranks, and theirs to this one; with splits also how many came from each."""
    return _AllToAll.apply(tensor, splits, process_set)


def reducescatter_async(
    tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0
):
    group = _group(process_set)
    world, me = dist.get_world_size(group), dist.get_rank(group)
    whole = _reduce_handle(tensor, op, group, prescale_factor, postscale_factor)
    rows = [tensor.shape[0] // world + (r < tensor.shape[0] % world) for r in range(world)]
    return _Handle(whole.work, lambda: whole.wait().split(rows)[me].clone())


def reducescatter(
    tensor,
    name=None,
    compression=Compression.none,
    op=Average,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    """This rank's rows of the reduced tensor."""
    return reducescatter_async(tensor, name, op, process_set, prescale_factor, postscale_factor).wait()


def grouped_reducescatter_async(
    tensors, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0
):
    return _together(
        [reducescatter_async(tensor, name, op, process_set, prescale_factor, postscale_factor) for tensor in tensors]
    )


def grouped_reducescatter(
    tensors,
    name=None,
    compression=Compression.none,
    op=Average,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
):
    return grouped_reducescatter_async(tensors, name, op, process_set, prescale_factor, postscale_factor).wait()


def barrier(process_set=global_process_set):
    dist.barrier(group=_group(process_set))


def join(device=-1):
    """Waits until all ranks have come here: the rank that came last."""
    import time

    came = [None] * size()
    dist.all_gather_object(came, time.time())
    return max(range(size()), key=came.__getitem__)
