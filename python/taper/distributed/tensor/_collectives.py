"""Collectives that can be differentiated: between what each rank has of a tensor and what it is as a whole.

A gradient is what the derivative by this rank's values is: of a part of the rows, the same rows; of what all ranks
have, the same on all; of a summand, that of the sum."""

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
        padded[: moved.shape[0]] = moved
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


def summed_rows(tensor, group, dim):
    """This rank's rows of the sum: where rows divide, no more than those travel."""
    world = dist.get_world_size(group)
    if tensor.shape[dim] % world or not tensor.numel():
        return own_rows(summed(tensor, group), group, dim).contiguous()
    moved = tensor.detach().movedim(dim, 0).contiguous()
    out = moved.new_empty((moved.shape[0] // world, *moved.shape[1:]))
    dist.reduce_scatter_tensor(out, moved, group=group)
    return out.movedim(0, dim).contiguous()


class Gather(Function):
    """Shard to Replicate: the gradient of the whole is, on each rank, that of the same result; its rows are this
    rank's."""

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


class Reduce(Function):
    """Partial to Replicate."""

    @staticmethod
    def forward(ctx, local, group, placement):
        op, ctx.placement, ctx.group = placement.reduce_op, placement, group
        if op == "norm":
            result = _norm_of(local.detach(), group, placement.norm_type)
        elif op == "avg":
            result = summed(local, group) / dist.get_world_size(group)
        else:
            result = summed(local, group, getattr(dist.ReduceOp, op.upper()))
        if op not in ("sum", "avg"):
            ctx.save_for_backward(local, result)
        return result

    @staticmethod
    def backward(ctx, grad):
        op = ctx.placement.reduce_op
        if op == "sum":
            return grad, None, None
        if op == "avg":
            return grad / dist.get_world_size(ctx.group), None, None
        local, result = ctx.saved_tensors
        if op in ("max", "min"):
            here = (local == result).to(grad.dtype)
            return grad * here / summed(here, ctx.group), None, None
        share = result / local if op == "product" else _norm_share(local, result, ctx.placement.norm_type)
        return grad * share, None, None


def _norm_of(local, group, p):
    if p in (float("inf"), float("-inf")):
        return summed(local, group, dist.ReduceOp.MAX if p > 0 else dist.ReduceOp.MIN)
    return summed(local, group) if p in (0, 1) else summed(local**p, group) ** (1.0 / p)


def _norm_share(local, result, p):
    if p in (float("inf"), float("-inf")):
        return (local == result).to(local.dtype)
    return taper.where(result == 0, 0.0, (local / result) ** (p - 1)) if p not in (0, 1) else taper.ones_like(local)


class Spread(Function):
    """Replicate into calls that differ by rank: the gradients that come back are summands."""

    @staticmethod
    def forward(ctx, whole, group):
        ctx.group = group
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx, grad):
        return summed(grad, ctx.group), None


class OneSummand(Function):
    """Replicate to a sum: the first rank's counts, the others' are zeros."""

    @staticmethod
    def forward(ctx, whole, group):
        return whole.clone() if dist.get_rank(group) == 0 else taper.zeros_like(whole)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class RowsToSummands(Gather):
    """Shard to a sum: zeros where other ranks have their rows. Its gradient is the sum's, so what comes back is as for
    Gather."""

    @staticmethod
    def forward(ctx, local, group, dim, size):
        ctx.how = group, dim
        shape = list(local.shape)
        shape[dim] = size
        whole = local.new_zeros(shape)
        own_rows(whole, group, dim).copy_(local)
        return whole


class SumToRows(Function):
    """A sum to Shard."""

    @staticmethod
    def forward(ctx, local, group, dim):
        ctx.how = group, dim, local.shape[dim]
        return summed_rows(local, group, dim)

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
        return summed_rows(grad, *ctx.how), None, None, None
