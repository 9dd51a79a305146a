"""torch.distributed.nn.functional: collectives that can be differentiated. Each gives new tensors; the backward is the
collective that goes the other way."""

import taper
from taper import distributed as dist
from taper.autograd.function import Function

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def _copy(tensor):
    return tensor.detach().clone(memory_format=taper.contiguous_format)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx, tensor, op, group):
        ctx.how = op, group
        made = _copy(tensor)
        dist.all_reduce(made, op, group=group)
        return made

    @staticmethod
    def backward(ctx, grad):
        return _AllReduce.apply(grad, *ctx.how), None, None


class _Broadcast(Function):
    @staticmethod
    def forward(ctx, tensor, src, group):
        ctx.how = src, group
        made = _copy(tensor)
        dist.broadcast(made, src, group=group)
        return made

    @staticmethod
    def backward(ctx, grad):
        src, group = ctx.how
        total = _Reduce.apply(grad, src, dist.ReduceOp.SUM, group)
        return total if dist.get_rank() == src else taper.zeros_like(total), None, None


class _Reduce(Function):
    @staticmethod
    def forward(ctx, tensor, dst, op, group):
        ctx.how = dst, group
        made = _copy(tensor)
        dist.reduce(made, dst, op, group=group)
        return made

    @staticmethod
    def backward(ctx, grad):
        return _Broadcast.apply(grad, *ctx.how), None, None, None


class _AllToAll(Function):
    """Parts to all ranks. Everything that moves without being added is made of this."""

    @staticmethod
    def forward(ctx, group, shapes, *parts):
        ctx.group, ctx.shapes = group, [part.shape for part in parts]
        out = [parts[0].new_empty(shape) for shape in shapes]
        dist.all_to_all(out, [part.detach().contiguous() for part in parts], group=group)
        return tuple(out)

    @staticmethod
    def backward(ctx, *grads):
        return (None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *grads))


def _shapes(shape, group):
    """This shape of every rank."""
    every = [None] * dist.get_world_size(group)
    dist.all_gather_object(every, tuple(shape), group=group)
    return every


def _nothing_of(tensor):
    """No elements, but a way back: every rank takes part in the backward."""
    return tensor.reshape(-1)[:0]


def all_reduce(tensor, op=dist.ReduceOp.SUM, group=None):
    return _AllReduce.apply(tensor, op, group)


def broadcast(tensor, src, group=None):
    return _Broadcast.apply(tensor, src, group)


def reduce(tensor, dst, op=dist.ReduceOp.SUM, group=None):
    return _Reduce.apply(tensor, dst, op, group)


def all_gather(tensor, group=None):
    """Every rank's tensor."""
    return _AllToAll.apply(group, _shapes(tensor.shape, group), *[tensor] * dist.get_world_size(group))


def gather(tensor, dst=0, group=None):
    """Every rank's tensor, on one; zeros on the others."""
    world, here = dist.get_world_size(group), dist.get_rank() == dst
    to = dist.get_group_rank(group or dist.group.WORLD, dst)
    parts = [tensor if rank == to else _nothing_of(tensor) for rank in range(world)]
    shapes = _shapes(tensor.shape, group)
    got = _AllToAll.apply(group, shapes if here else [(0,)] * world, *parts)
    return (
        got if here else tuple(tensor.new_zeros(shape) + part.sum() for shape, part in zip(shapes, got))
    )  # a backward from here takes part


def scatter(tensors, src=0, group=None):
    """This rank's tensor of those that one has."""
    shapes = _shapes(tensors[dist.get_rank(group)].shape, group)
    world, here = dist.get_world_size(group), dist.get_rank() == src
    start = dist.get_group_rank(group or dist.group.WORLD, src)
    parts = list(tensors) if here else [_nothing_of(tensor) for tensor in tensors]
    wanted = [shapes[dist.get_rank(group)] if rank == start else (0,) for rank in range(world)]
    return _AllToAll.apply(group, wanted, *parts)[start]


def reduce_scatter(output, input_list, op=dist.ReduceOp.SUM, group=None):
    """This rank's tensor of the sums of all ranks' lists."""
    return _AllReduce.apply(taper.stack(list(input_list)), op, group)[dist.get_rank(group)]


def all_to_all(output_tensor_list, input_tensor_list, group=None):
    return _AllToAll.apply(group, [tuple(out.shape) for out in output_tensor_list], *input_tensor_list)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None):
    world = dist.get_world_size(group)
    sizes = output_split_sizes or [output.shape[0] // world] * world
    parts = input.split(input_split_sizes or [input.shape[0] // world] * world)
    return taper.cat(_AllToAll.apply(group, [(n, *output.shape[1:]) for n in sizes], *parts))
