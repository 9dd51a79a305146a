"""torch.vmap: a function over one slice becomes one over a batch. The function runs once, on tensors that stand for all
slices (taper._batched); where it does what only single tensors can do, it runs once per slice and the results are
stacked.

The steps have PyTorch's names and arguments, and are looked up here at each call: tensordict puts its own in their
place."""

from taper import _C
from taper._C import Tensor
from taper.overrides import _vmaps
from taper.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten


def _get_name(func):
    return getattr(func, "__name__", repr(func))


def _check_dim(dim, leaf, where):
    """The batch dim of one input, counted from the front."""
    if dim is None:
        return None
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise ValueError(
            f"{where}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
        )
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{where}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over "
            "non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -leaf.dim() <= dim < leaf.dim():
        raise ValueError(
            f"{where}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {leaf.dim()} so "
            f"expected in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
        )
    return dim % leaf.dim()


def _process_batched_inputs(in_dims, args, func):
    """The batch's size, the dim that is mapped over in each leaf of the arguments (None: the same for all), the leaves,
    and how they came."""
    where = f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{where}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
            f"got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"{where}: got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with "
            "no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(tuple(args))
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{where}: in_dims is not compatible with the structure of inputs. in_dims has structure "
            f"{tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    dims = [_check_dim(dim, leaf, where) for dim, leaf in zip(dims, leaves)]
    sizes = {leaf.shape[dim] for leaf, dim in zip(leaves, dims) if dim is not None}
    if not sizes:
        raise ValueError("vmap: got no tensors to map over: at least one input needs a dim that is not None.")
    if len(sizes) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{[leaf.shape[dim] for leaf, dim in zip(leaves, dims) if dim is not None]} for the mapped dimension"
        )
    return sizes.pop(), dims, leaves, spec


def _check_output(leaf, name, out_dim):
    where = f"vmap({name}, ...)"
    if leaf is None and out_dim is None:
        return
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{where}: `{name}` must only return Tensors, got type {type(leaf)}. Did you mean to set out_dims= to "
            "None for output?"
        )


def _output_dims(spec, func, out_dims):
    """Where the batch goes in each of the results."""
    dims = _broadcast_to_and_flatten(out_dims, spec)
    if dims is None and isinstance(out_dims, tuple) and len(out_dims) == 1 and spec.is_leaf():
        dims = list(out_dims)
    if dims is None:
        raise ValueError(
            f"vmap({_get_name(func)}, ..., out_dims={out_dims}): out_dims is not compatible with the structure of "
            f"`outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    return dims


def _stack(rows, spec, func, out_dims, size):
    from taper import stack

    results = []
    for column, dim in zip(zip(*rows), _output_dims(spec, func, out_dims)):
        _check_output(column[0], _get_name(func), dim)
        results.append(
            column[0] if dim is None else stack(column, dim) if size else stack(column, dim).narrow(dim, 0, 0)
        )
    return tree_unflatten(results, spec)


def _run_slices(func, leaves, dims, spec, size, randomness, kwargs):
    from taper.autograd import _run

    rows, out_spec = [], None
    if randomness == "same":
        from taper import get_rng_state, set_rng_state

        state = get_rng_state()
    for i in range(size):
        if randomness == "same":
            set_rng_state(state)
        slices = [leaf if dim is None else leaf[(slice(None),) * dim + (i,)] for leaf, dim in zip(leaves, dims)]
        before, _run.slices_follow = _run.slices_follow, _run.slices_follow or i + 1 < size
        try:
            row, row_spec = tree_flatten(func(*tree_unflatten(slices, spec), **kwargs))
        finally:
            _run.slices_follow = before
        if out_spec is not None and row_spec != out_spec:
            raise ValueError(
                f"vmap({_get_name(func)}, ...): results of different structure for different slices: {out_spec} and "
                f"{row_spec}"
            )
        out_spec = row_spec
        rows.append(row)
    return rows, out_spec


def _add_batch_dim(tensor, batch_dim, level):
    from taper._batched import wrap

    return wrap(tensor.movedim(batch_dim, 0) if batch_dim else tensor, level)


def _create_batched_inputs(flat_in_dims, flat_args, vmap_level, args_spec):
    """The arguments, with batches in place of the tensors that are mapped over."""
    batched = [
        leaf if dim is None else _add_batch_dim(leaf, dim, vmap_level) for leaf, dim in zip(flat_args, flat_in_dims)
    ]
    return tree_unflatten(batched, args_spec)


def _maybe_remove_batch_dim(name, batched_output, vmap_level, batch_size, out_dim):
    """One result as a tensor with the batch at out_dim; without a batch where that is None."""
    from taper._batched import Batched

    _check_output(batched_output, name, out_dim)
    mapped = isinstance(batched_output, Batched) and batched_output._level == vmap_level
    if out_dim is None:
        return batched_output._physical.select(0, 0) if mapped else batched_output
    whole = batched_output._physical if mapped else batched_output.expand(batch_size, *batched_output.shape)
    return whole.movedim(0, out_dim) if out_dim else whole


def _unwrap_batched(batched_outputs, out_dims, vmap_level, batch_size, func):
    """The results, with the batch as a dim again."""
    outputs, spec = tree_flatten(batched_outputs)
    results = [
        _maybe_remove_batch_dim(_get_name(func), leaf, vmap_level, batch_size, dim)
        for leaf, dim in zip(outputs, _output_dims(spec, func, out_dims))
    ]
    return tree_unflatten(results, spec)


def _run_batch(func, leaves, dims, spec, kwargs, out_dims, size, randomness="error"):
    """All slices at once. The random generators must be as before: what one slice draws would be the same for all."""
    from taper._batched import NeedsSlices, refuse_randomness
    from taper._dispatch import NoHandlers

    outer, outer_randomness = _vmaps.sizes, _vmaps.randomness
    _vmaps.sizes, _vmaps.randomness, level = (*outer, size), randomness, len(outer) + 1
    before = _C.default_generator.get_state()
    _C._enter_transform(1)
    try:
        outputs = func(*_create_batched_inputs(dims, leaves, level, spec), **kwargs)
        with NoHandlers():
            drawn = not _C.default_generator.get_state().equal(before)
        if drawn:
            refuse_randomness()
    except (NeedsSlices, RuntimeError):
        _C.default_generator.set_state(before)  # what is refused has drawn nothing, and slices draw anew
        raise
    finally:
        _C._enter_transform(-1)
        _vmaps.sizes, _vmaps.randomness = outer, outer_randomness
    return _unwrap_batched(outputs, out_dims, level, size, func)


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """func over slices of its arguments: in_dims says along which dim of each (None: whole), out_dims where the batch
    goes in the results."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    from functools import wraps

    @wraps(func, updated=())
    def wrapped(*args, **kwargs):
        size, dims, leaves, spec = _process_batched_inputs(in_dims, args, func)
        if size:
            from taper._batched import NeedsSlices

            try:
                return _run_batch(func, leaves, dims, spec, kwargs, out_dims, size, randomness)
            except NeedsSlices:
                pass
        if size == 0:  # a slice of zeros tells what the results look like
            leaves = [
                leaf
                if dim is None
                else leaf.new_zeros([n for d, n in enumerate(leaf.shape) if d != dim]).unsqueeze(dim)
                for leaf, dim in zip(leaves, dims)
            ]
        rows, out_spec = _run_slices(func, leaves, dims, spec, max(size, 1), randomness, kwargs)
        return _stack(rows, out_spec, func, out_dims, size)

    return wrapped
