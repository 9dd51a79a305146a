"""Where PyTorch keeps torch.vmap and torch.func.grad."""

from taper.func import grad, grad_and_value, vmap  # noqa: F401


def chunk_vmap(func, in_dims=0, out_dims=0, randomness="error", chunks=2):
    """vmap over that many parts of the batch, one after the other."""
    if chunks == 1:
        return vmap(func, in_dims, out_dims, randomness)
    from functools import wraps

    from taper import cat
    from taper._functorch.vmap import _output_dims, _process_batched_inputs
    from taper.utils._pytree import tree_flatten, tree_unflatten

    @wraps(func)
    def wrapped(*args, **kwargs):
        size, dims, leaves, spec = _process_batched_inputs(in_dims, args, func)
        step = -(-size // chunks)
        rows, out_spec = [], None
        for start in range(0, size, step):
            part = [x if d is None else x.narrow(d, start, min(step, size - start)) for x, d in zip(leaves, dims)]
            row, out_spec = tree_flatten(
                vmap(func, in_dims, out_dims, randomness)(*tree_unflatten(part, spec), **kwargs)
            )
            rows.append(row)
        where = _output_dims(out_spec, func, out_dims)
        return tree_unflatten(
            [column[0] if d is None else cat(column, d) for column, d in zip(zip(*rows), where)], out_spec
        )

    return wrapped
