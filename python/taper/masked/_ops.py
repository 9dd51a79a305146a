"""torch.masked's functions: of the elements where a mask is true. What is masked out takes the value that changes
nothing."""

import taper

_inf = float("inf")


def _mask_of(input, mask):
    return taper.ones_like(input, dtype=taper.bool) if mask is None else mask.to_dense().to(taper.bool).expand_as(input)


def _canonical_dim(dim, ndim):
    """The dims of a reduction, in order: all of them where none is named."""
    if dim is None or not isinstance(dim, int) and len(dim) == 0:
        return tuple(range(ndim))
    found = []
    for d in [dim] if isinstance(dim, int) else dim:
        bound = max(ndim, 1)
        if not -bound <= d < bound:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {d})"
            )
        if d % bound in found:
            raise RuntimeError(f"dim={d % bound} appears multiple times in the list of dims")
        found.append(d % bound)
    return tuple(sorted(found))


def _dims(input, dim):
    return tuple(d for d in _canonical_dim(dim, input.ndim) if d < max(input.ndim, 1)) if input.ndim else ()


def _input_mask(input, *args, mask=None, **kwargs):
    """The mask in the input's shape and layout."""
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    if mask.shape != input.shape:
        mask = mask.to_dense().expand(input.shape)
    mask = mask.to(taper.bool)
    if mask.layout is input.layout:
        return mask.coalesce() if mask.layout is taper.sparse_coo else mask
    return mask.to_dense() if input.layout is taper.strided else mask.to_sparse(layout=input.layout)


_NORMALISED = frozenset("softmax log_softmax softmin normalize cumsum cumprod".split())


def _output_mask(op, input, *args, **kwargs):
    """Which results of a function have elements that count."""
    name = op.__name__
    mask = (
        _input_mask(input, mask=kwargs.get("mask"))
        if kwargs.get("mask") is not None
        else taper.ones(input.shape, dtype=taper.bool, device=input.device)
    )
    if name in _NORMALISED:
        return mask
    at = 1 if name == "norm" else 0
    dim = args[at] if len(args) > at else kwargs.get("dim")
    return _any_of(mask, dim, kwargs.get("keepdim", False))


def _any_of(mask, dim, keepdim):
    if mask.layout is not taper.strided:
        return _sparse_reduction("amax", mask.to(taper.uint8), dim, keepdim, None, mask).to(taper.bool)
    return mask.any(_dims(mask, dim), keepdim) if mask.ndim else mask


def _combine_input_and_mask(op, input, mask, *args):
    """The input with the value that changes nothing where it is masked out."""
    fill = {"sum": 0, "prod": 1, "mean": 0, "norm": 0, "cumsum": 0, "cumprod": 1}.get(op.__name__)
    if fill is None:
        fill = _most(input.dtype) if op.__name__ in ("amin", "argmin", "softmin") else _least(input.dtype)
    return input if mask is None else _filled(input, mask, fill)


def _where(mask, input, fill_value):
    """torch.where whose input and mask may be sparse: the mask's places are left, and of dense dims those that it hides
    take fill_value."""
    if input.layout is taper.strided:
        return taper.where(mask, input, fill_value)
    if mask.dense_dim():
        made = input.sparse_mask(mask)
        return made._like(values=taper.where(mask._values(), made._values(), fill_value))
    return input.sparse_mask(_true_places(mask))


def _true_places(mask):
    """A mask in coordinates or rows without the places it stores a False at."""
    found = mask.to_sparse().coalesce()
    kept = found.values()
    if found.dense_dim() == 0 and not bool(kept.all()):
        found = taper.sparse_coo_tensor(found.indices()[:, kept], kept[kept], found.shape, is_coalesced=True)
    return found.to_sparse(layout=mask.layout)


def _strided_only(name, input):
    if input.layout is not taper.strided:
        raise ValueError(f"masked {name} expects strided tensor (got {input.layout} tensor)")


def _sparse_reduction(name, input, dim, keepdim, dtype, mask):
    """A reduction of a sparse tensor, over the groups of its elements that differ in the dims alone; the result has its
    layout."""
    layout = input.layout
    if layout not in (taper.sparse_coo, taper.sparse_csr) or name == "mean" and layout is taper.sparse_coo:
        raise ValueError(
            f"masked {name} expects strided{' or sparse_csr' if name == 'mean' else ', sparse_coo or sparse_csr'} "
            f"tensor (got {layout} tensor)"
        )
    if mask is None and name != "sum":
        raise ValueError(f"masked {name} expects explicit mask for {layout} tensor input")
    if layout is taper.sparse_csr and not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    from taper.sparse._tensor import coo, entries, keys_of

    whole = input.to_sparse()
    if whole.dense_dim():
        whole = whole.to_dense().to_sparse()
    if mask is not None:
        mask = _true_places(
            _input_mask(whole, mask=mask.to_dense() if mask.layout is not taper.strided and mask.dense_dim() else mask)
        )
        whole = whole.sparse_mask(mask)
    at, values = entries(whole.coalesce())
    values = values if dtype is None else values.to(dtype)
    dims = _canonical_dim(dim, input.ndim)
    left = [d for d in range(input.ndim) if d not in dims]
    keys, group, counts = taper.unique(
        keys_of(at[left], [input.shape[d] for d in left]), return_inverse=True, return_counts=True
    )
    if not left and not keys.shape[0] and name != "sum":  # one group, of nothing
        keys, made = (
            at.new_zeros(1),
            values.new_full(
                (1,), {"prod": 1, "amax": _least(values.dtype), "amin": _most(values.dtype)}.get(name, float("nan"))
            ),
        )
    elif values.shape[0] and not input.ndim:
        made = values
    elif name in ("sum", "mean"):
        wide = taper.float32 if values.dtype in (taper.float16, taper.bfloat16) else values.dtype
        made = values.new_zeros(keys.shape[0], dtype=wide).index_add(0, group, values.to(wide))
        made = (made / counts if name == "mean" else made).to(values.dtype)
    else:
        made = values.new_zeros(keys.shape[0]).scatter_reduce(0, group, values, name, include_self=False)
    rows, rest = {}, keys
    for d in reversed(left):
        rows[d] = rest % max(input.shape[d], 1)
        rest = rest // max(input.shape[d], 1)
    kept = range(input.ndim) if keepdim else left
    places = [rows.get(d, taper.zeros_like(keys)) for d in kept]
    size = [1 if d in dims else input.shape[d] for d in kept]
    made = coo(taper.stack(places) if places else at.new_zeros(0, keys.shape[0]), made, size, True)
    return made if layout is taper.sparse_coo else made.to_sparse_csr()


def _axes(input, dim):
    """The dims from the last to the first, none of them negative; a zero-dimensional tensor has none."""
    return sorted({d % input.ndim for d in _dims(input, dim)}, reverse=True) if input.ndim else []


def _least(dtype):
    """What no other value is below."""
    return (
        -_inf
        if dtype.is_floating_point or dtype.is_complex
        else taper.iinfo(dtype).min
        if dtype != taper.bool
        else False
    )


def _most(dtype):
    return (
        _inf if dtype.is_floating_point or dtype.is_complex else taper.iinfo(dtype).max if dtype != taper.bool else True
    )


def _typed(input, dtype):
    """In the dtype asked for; sums and products of integers are int64."""
    if dtype is None:
        dtype = input.dtype if input.is_floating_point() or input.is_complex() else taper.int64
    return input.to(dtype)


def _filled(input, mask, value):
    return taper.where(_mask_of(input, mask), input, taper.tensor(value, dtype=input.dtype, device=input.device))


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum; 0 where all is masked out."""
    if input.layout is not taper.strided:
        return _sparse_reduction("sum", _typed(input, dtype), dim, keepdim, None, mask)
    return _filled(_typed(input, dtype), mask, 0).sum(_dims(input, dim), keepdim)


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product; 1 where all is masked out."""
    if input.layout is not taper.strided:
        return _sparse_reduction("prod", _typed(input, dtype), dim, keepdim, None, mask)
    result = _filled(_typed(input, dtype), mask, 1)
    for one in _axes(input, dim):
        result = result.prod(one, keepdim)
    return result


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest element."""
    if input.layout is not taper.strided:
        return _sparse_reduction("amax", input, dim, keepdim, dtype, mask)
    input = input if dtype is None else input.to(dtype)
    return _filled(input, mask, _least(input.dtype)).amax(_dims(input, dim), keepdim)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest element."""
    if input.layout is not taper.strided:
        return _sparse_reduction("amin", input, dim, keepdim, dtype, mask)
    input = input if dtype is None else input.to(dtype)
    return _filled(input, mask, _most(input.dtype)).amin(_dims(input, dim), keepdim)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the largest element is, in the input's dtype as PyTorch has it."""
    _strided_only("argmax", input)
    dtype = input.dtype if dtype is None else dtype
    return _filled(input, mask, _least(input.dtype)).argmax(dim, keepdim).to(dtype)


def _all(input, dim=None, *, keepdim=False, mask=None):
    """Are all elements that are not masked out true?"""
    return (input.to(taper.bool) | ~_mask_of(input, mask)).all(_dims(input, dim), keepdim)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the smallest element is, in the input's dtype."""
    _strided_only("argmin", input)
    dtype = input.dtype if dtype is None else dtype
    return _filled(input, mask, _most(input.dtype)).argmin(dim, keepdim).to(dtype)


def _counts(input, dim, keepdim, mask):
    return _mask_of(input, mask).sum(_dims(input, dim), keepdim)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean; NaN where all is masked out."""
    if input.layout is not taper.strided:
        return _sparse_reduction("mean", input, dim, keepdim, dtype, mask)
    input = input if dtype is None else input.to(dtype)
    if not (input.is_floating_point() or input.is_complex()):
        raise ValueError(
            "mean(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {input.dtype}"
        )
    return sum(input, dim, keepdim=keepdim, mask=mask) / _counts(input, dim, keepdim, mask)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The lower median; NaN where all is masked out."""
    _strided_only("median", input)
    input = input if dtype is None else input.to(dtype)
    if not input.is_floating_point():
        raise ValueError("input must be floating type")
    return _filled(input, mask, float("nan")).nanmedian(dim, keepdim).values


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The logarithm of the sum of exponentials, in the input's dtype."""
    _strided_only("logsumexp", input)
    filled = _filled(input, mask, _least(input.dtype))
    return filled.logsumexp(_dims(input, dim), keepdim).to(input.dtype if dtype is None else dtype)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The vector norm."""
    _strided_only("norm", input)
    input = input if dtype is None else input.to(dtype)
    return taper.linalg.vector_norm(_filled(input, mask, _inf if ord == -_inf else 0), ord, _dims(input, dim), keepdim)


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The variance, with one element less in the denominator unless unbiased=False."""
    _strided_only("std/var", input)
    if correction is not None and unbiased is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    correction = int(unbiased if unbiased is not None else True) if correction is None else correction
    input = input.to(
        dtype
        if dtype is not None
        else input.dtype
        if input.is_floating_point() or input.is_complex()
        else taper.get_default_dtype()
    )
    away = input - mean(input, dim, keepdim=True, mask=mask)
    squares = away * away.conj() if away.is_complex() else away * away
    left = _counts(input, dim, keepdim, mask) - correction
    variance = sum(squares, dim, keepdim=keepdim, mask=mask) / left.clamp_min(0)
    return variance if input.is_complex() else variance.to(input.dtype)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The standard deviation."""
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def cumsum(input, dim, *, dtype=None, mask=None):
    """Running sums in the input's dtype, over what is masked out as if it were not there."""
    _strided_only("cumsum", input)
    return _filled(input, mask, 0).cumsum(dim, dtype=input.dtype if dtype is None else dtype)


def cumprod(input, dim, *, dtype=None, mask=None):
    """Running products in the input's dtype."""
    _strided_only("cumprod", input)
    return _filled(input, mask, 1).cumprod(dim, dtype=input.dtype if dtype is None else dtype)


def softmax(input, dim, *, dtype=None, mask=None):
    """Softmax among the elements that are not masked out; others are 0."""
    _strided_only("softmax", input)
    input = _typed(input, dtype)
    return _filled(input, mask, _least(input.dtype)).softmax(dim)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """The logarithm of softmax."""
    _strided_only("log_softmax", input)
    input = _typed(input, dtype)
    return _filled(input, mask, _least(input.dtype)).log_softmax(dim)


def softmin(input, dim, *, dtype=None, mask=None):
    """Softmax of the negative."""
    _strided_only("softmin", input)
    input = _typed(input, dtype)
    return taper.nn.functional.softmin(_filled(input, mask, _most(input.dtype)), dim)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """Divided by the norm."""
    _strided_only("normalize", input)
    input = input if dtype is None else input.to(dtype)
    length = norm(input, ord, dim, keepdim=True, mask=mask)
    return _filled(input, mask, 0) / taper.maximum(length, taper.full_like(length, eps))


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)); what is masked out of one of them counts as -inf."""
    input, other = (x if dtype is None else x.to(dtype) for x in (input, other))
    return taper.logaddexp(_filled(input, input_mask, -_inf), _filled(other, other_mask, -_inf))
