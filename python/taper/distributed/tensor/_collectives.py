"""Collectives that can be differentiated: between what each rank has of a tensor and what it is as a whole."""
import taper
from taper import distributed as dist
from taper.autograd.function import Function


def gather_rows(local, group, dim, size):
    """The whole tensor of which each rank has the rows that Shard(dim) gives it."""
    world = dist.get_world_size(group)
    each = -(-size // world)
    moved = local.detach().movedim(dim, 0)
    padded = moved
    if moved.shape[0] != each:
        padded = moved.new_zeros((each, *moved.shape[1:]))
        padded[:moved.shape[0]] = moved
    out = padded.new_empty((world * each, *moved.shape[1:]))
    dist.all_gather_into_tensor(out, padded.contiguous(), group=group)
    return out[:size].movedim(0, dim).contiguous()


def own_rows(whole, group, dim):
    """This rank's rows of a tensor that it has as a whole."""
    from taper.distributed.tensor.placement_types import Shard
    start, count = Shard(dim).part(whole.shape[dim], dist.get_world_size(group), dist.get_rank(group))
    return whole.narrow(dim, start, count)


def summed(tensor, group, op=None):
    made = tensor.detach().clone(memory_format=taper.contiguous_format)
    dist.all_reduce(made, op or dist.ReduceOp.SUM, group=group)
    return made


class Gather(Function):
    """Shard to Replicate: the gradient of the whole is, on each rank, that of the same result; its rows are this rank's."""

    @staticmethod
    def forward(ctx, local, group, dim, size):
        ctx.how = group, dim
        return gather_rows(local, group, dim, size)

    @staticmethod
    def backward(ctx, grad):
        return own_rows(grad, *ctx.how).contiguous(), None, None, None


class Split(Function):
    """Replicate to Shard."""

    @staticmethod
    def forward(ctx, whole, group, dim):
        ctx.how = group, dim, whole.shape[dim]
        return own_rows(whole, group, dim).contiguous()

    @staticmethod
    def backward(ctx, grad):
        return gather_rows(grad, *ctx.how), None, None


class Sum(Function):
    """Partial to Replicate."""

    @staticmethod
    def forward(ctx, local, group):
        return summed(local, group)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Spread(Function):
    """Replicate into calls that differ by rank: the gradients that come back are summands."""

    @staticmethod
    def forward(ctx, whole, group):
        ctx.group = group
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx, grad):
        return summed(grad, ctx.group), None


class SumToRows(Function):
    """Partial to Shard."""

    @staticmethod
    def forward(ctx, local, group, dim):
        ctx.how = group, dim, local.shape[dim]
        return own_rows(summed(local, group), group, dim).contiguous()

    @staticmethod
    def backward(ctx, grad):
        return gather_rows(grad, *ctx.how), None, None


class RowsToCalls(Function):
    """Shard to Replicate, into calls that differ by rank: gradients are summed and cut."""

    @staticmethod
    def forward(ctx, local, group, dim, size):
        ctx.how = group, dim
        return gather_rows(local, group, dim, size)

    @staticmethod
    def backward(ctx, grad):
        group, dim = ctx.how
        return own_rows(summed(grad, group), group, dim).contiguous(), None, None, None
