"""All the partial results of an associative function along a dimension."""

import taper
from taper.utils import _pytree

__all__ = ["associative_scan"]


def _part(leaves, start, stop=None, step=1):
    return [leaf[start:stop:step] for leaf in leaves]


def _partial_results(combine, leaves):
    """Pairs of neighbours are combined first, so that n elements take about 2 log(n) calls of `combine`."""
    n = leaves[0].shape[0]
    if n < 2:
        return leaves
    odd = _partial_results(combine, combine(_part(leaves, 0, n - 1, 2), _part(leaves, 1, None, 2)))
    first = _part(leaves, 0, 1)
    even = first
    if n > 2:
        rest = combine(_part(odd, 0, (n - 1) // 2), _part(leaves, 2, None, 2))
        even = [taper.cat(pair) for pair in zip(first, rest)]
    results = []
    for at_even, at_odd in zip(even, odd):
        pairs = taper.stack([at_even[: n // 2], at_odd], 1).flatten(0, 1)
        results.append(taper.cat([pairs, at_even[n // 2 :]]))
    return results


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """combine_fn of all elements up to each one, along `dim`; from the end with `reverse`. xs may be a tree of
    tensors."""
    leaves, structure = _pytree.tree_flatten(xs)
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError(f"Dim must be an int, but got {type(dim)}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if any(not isinstance(leaf, taper.Tensor) for leaf in leaves):
        raise ValueError(f"xs leaves must be a Tensor, but got {leaves}")

    def combine(left, right):
        joined = combine_fn(_pytree.tree_unflatten(left, structure), _pytree.tree_unflatten(right, structure))
        return _pytree.tree_leaves(joined)

    moved = [leaf.movedim(dim, 0) for leaf in leaves]
    if reverse:
        moved = [leaf.flip(0) for leaf in moved]
    results = _partial_results(combine, moved)
    if reverse:
        results = [leaf.flip(0) for leaf in results]
    return _pytree.tree_unflatten([leaf.movedim(0, dim) for leaf in results], structure)
