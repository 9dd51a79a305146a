"""Sparse gradients: those of the rows that an embedding with sparse=True looked up, and what optimisers do with them.

The tape's gradients are dense, so a lookup puts the gradient of its table there itself when the backward reaches it,
and tells the tape of none. A table that is no leaf, or that a data-parallel wrapper reduces, gets a dense one."""

import taper
from taper.autograd import Function
from taper.nn import functional as F
from taper.sparse._tensor import Sparse, coo, plain


class _Pick(Function):
    """Rows of a table; those with the number `padding` get no gradient."""

    @staticmethod
    def forward(ctx, table, rows, padding):
        ctx.table, ctx.padding = table, padding
        ctx.save_for_backward(rows)
        return table.detach().index_select(0, rows)

    @staticmethod
    def backward(ctx, grad):
        (rows,) = ctx.saved_tensors
        if ctx.padding is not None:
            kept = rows != ctx.padding
            rows, grad = rows[kept], grad[kept]
        places = rows.unsqueeze(0).clone()  # the program may write new numbers into its own
        made = coo(places, grad.detach(), ctx.table.shape)
        if not ctx.table.is_leaf or getattr(ctx.table, "_dense_gradient", False):
            return made.to_dense(), None, None
        before = ctx.table.grad
        ctx.table.grad = made if before is None else before + made
        return None, None, None


def _picked(input, table, padding_idx, max_norm, norm_type, scale_grad_by_freq):
    """A row for each number in input."""
    if scale_grad_by_freq:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    if max_norm is not None:
        with taper.no_grad():
            F.embedding(input, table, None, max_norm, norm_type)  # shortens the rows where they are
    return _Pick.apply(table, input.reshape(-1).long(), padding_idx)


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False):
    """F.embedding whose table gets a sparse gradient."""
    return _picked(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq).view(
        *input.shape, weight.shape[1]
    )


def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    mode="mean",
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """F.embedding_bag whose table gets a sparse gradient: bags of the rows that were picked; padding is a row behind
    them."""
    if mode == "max":
        raise RuntimeError("embedding_bag: sparse gradients are there for the modes 'sum' and 'mean'")
    rows = _picked(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    numbers, behind = taper.arange(rows.shape[0], device=rows.device), None
    if padding_idx is not None:
        behind = rows.shape[0]
        numbers = taper.where(input.reshape(-1) == padding_idx, behind, numbers)
        rows = taper.cat([rows, rows.new_zeros(1, rows.shape[1])])
    return F.embedding_bag(
        numbers.view(input.shape),
        rows,
        offsets,
        mode=mode,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=behind,
    )


# ---- Optimisers ----
_ADVICE = {"Adam": ", please consider SparseAdam instead"}


def step(optimiser, run):
    """One step where some gradients may be sparse: SGD and Adagrad take them, as numbers that are zero elsewhere; the
    others refuse."""
    found = [
        (group, p, p.grad) for group in optimiser.param_groups for p in group["params"] if isinstance(p.grad, Sparse)
    ]
    name = type(optimiser).__name__
    if found and name not in ("SGD", "Adagrad"):
        raise RuntimeError(f"{name} does not support sparse gradients{_ADVICE.get(name, '')}")
    for group, p, grad in found:
        if group.get("weight_decay"):
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        if name == "SGD" and not group["momentum"]:  # only the rows themselves
            with taper.no_grad():
                p.index_add_(
                    0, grad._indices()[0], plain(grad), alpha=float(group["lr"]) * (1 if group["maximize"] else -1)
                )
            p.grad = None
        else:
            p.grad = grad.to_dense()
    run()
    for _, p, grad in found:
        p.grad = grad
