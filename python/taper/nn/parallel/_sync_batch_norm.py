"""Batch normalisation over the batches of all ranks: what SyncBatchNorm does in training.

Each rank hands out its mean, its sum of squared distances from it and its count; from these every rank works out the
same statistics (by rank, so with the same bits). The gradient of the input needs two sums over all ranks; those of
weight and bias stay a rank's own, for DistributedDataParallel averages them."""

import taper
from taper import _C
from taper import distributed as dist
from taper.autograd.function import Function

_cat, _empty_like = taper.cat, taper.empty_like


def _statistics(x, group):
    """Mean, biased variance and count of each channel over all ranks. x: (C, values), float32 or float64."""
    channels, count = x.shape
    mean = x.mean(1) if count else x.new_zeros(channels)
    spread = (x - mean[:, None]).square().sum(1)
    mine = _cat([mean, spread, x.new_full((1,), count)])
    every = [_empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(every, mine, group=group)
    means, spreads, counts = zip(*((part[:channels], part[channels:-1], part[-1]) for part in every))
    total = sum(counts[1:], counts[0])
    whole = sum((m * n for m, n in zip(means[1:], counts[1:])), means[0] * counts[0]) / total
    around = [s + n * (m - whole).square() for m, s, n in zip(means, spreads, counts)]
    return whole, sum(around[1:], around[0]) / total, total


class _Normalise(Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps, group):
        work = x.transpose(0, 1).reshape(x.shape[1], -1)
        work = work if work.dtype in (_C.float32, _C.float64) else work.float()
        mean, variance, total = _statistics(work, group)
        scale = (variance + eps).rsqrt()
        ctx.save_for_backward(x, weight, mean, scale, total)
        ctx.group = group
        shape = [1, -1] + [1] * (x.dim() - 2)
        y = (x - mean.view(shape)) * scale.view(shape)
        if weight is not None:
            y = y * weight.view(shape)
        if bias is not None:
            y = y + bias.view(shape)
        y = y.to(x.dtype)
        ctx.mark_non_differentiable(mean, variance, total)
        return y, mean, variance, total

    @staticmethod
    def backward(ctx, grad, *_):
        x, weight, mean, scale, total = ctx.saved_tensors
        shape, over = [1, -1] + [1] * (x.dim() - 2), [d for d in range(x.dim()) if d != 1]
        away = x - mean.view(shape)
        sums = _cat([grad.sum(over), (grad * away).sum(over)]).to(mean.dtype)
        grad_weight = (
            (sums[len(mean) :] * scale).to(weight.dtype) if weight is not None and ctx.needs_input_grad[1] else None
        )
        grad_bias = sums[: len(mean)].to(weight.dtype) if weight is not None and ctx.needs_input_grad[2] else None
        grad_x = None
        shared = sums.clone()
        dist.all_reduce(shared, group=ctx.group)  # also where x needs none: all ranks come here
        if ctx.needs_input_grad[0]:
            of_grad, of_product = shared[: len(mean)] / total, shared[len(mean) :] / total
            grad_x = (grad - of_grad.view(shape) - away * (scale.square() * of_product).view(shape)) * scale.view(shape)
            grad_x = (grad_x * weight.view(shape) if weight is not None else grad_x).to(x.dtype)
        return grad_x, grad_weight, grad_bias, None, None


def normalise(layer, x):
    """A SyncBatchNorm's forward in training; its running statistics follow those of all ranks."""
    y, mean, variance, total = _Normalise.apply(x, layer.weight, layer.bias, layer.eps, layer.process_group)
    if layer.training and layer.track_running_stats and layer.running_mean is not None:
        layer.num_batches_tracked.add_(1)
        step = 1.0 / float(layer.num_batches_tracked) if layer.momentum is None else layer.momentum
        unbiased = variance * (total / (total - 1).clamp(min=1))
        layer.running_mean.mul_(1 - step).add_(mean.to(layer.running_mean.dtype), alpha=step)
        layer.running_var.mul_(1 - step).add_(unbiased.to(layer.running_var.dtype), alpha=step)
    return y
