"""torch.masked's functions: of the elements where a mask is true. What is masked out takes the value that changes nothing."""
import taper

_inf = float("inf")


def _mask_of(input, mask):
    return taper.ones_like(input, dtype=taper.bool) if mask is None else mask.to(taper.bool).expand_as(input)


def _dims(input, dim):
    return tuple(range(input.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)


def _axes(input, dim):
    """The dims from the last to the first, none of them negative; a zero-dimensional tensor has none."""
    return sorted({d % input.ndim for d in _dims(input, dim)}, reverse=True) if input.ndim else []


def _least(dtype):
    """What no other value is below."""
    return -_inf if dtype.is_floating_point or dtype.is_complex else taper.iinfo(dtype).min if dtype != taper.bool else False


def _most(dtype):
    return _inf if dtype.is_floating_point or dtype.is_complex else taper.iinfo(dtype).max if dtype != taper.bool else True


def _typed(input, dtype):
    """In the dtype asked for; sums and products of integers are int64."""
    if dtype is None:
        dtype = input.dtype if input.is_floating_point() or input.is_complex() else taper.int64
    return input.to(dtype)


def _filled(input, mask, value):
    return taper.where(_mask_of(input, mask), input, taper.tensor(value, dtype=input.dtype, device=input.device))


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum; 0 where all is masked out."""
    return _filled(_typed(input, dtype), mask, 0).sum(_dims(input, dim), keepdim)


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product; 1 where all is masked out."""
    result = _filled(_typed(input, dtype), mask, 1)
    for one in _axes(input, dim):
        result = result.prod(one, keepdim)
    return result


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest element."""
    input = input if dtype is None else input.to(dtype)
    return _filled(input, mask, _least(input.dtype)).amax(_dims(input, dim), keepdim)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest element."""
    input = input if dtype is None else input.to(dtype)
    return _filled(input, mask, _most(input.dtype)).amin(_dims(input, dim), keepdim)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the largest element is, in the input's dtype as PyTorch has it."""
    dtype = input.dtype if dtype is None else dtype
    return _filled(input, mask, _least(input.dtype)).argmax(dim, keepdim).to(dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the smallest element is, in the input's dtype."""
    dtype = input.dtype if dtype is None else dtype
    return _filled(input, mask, _most(input.dtype)).argmin(dim, keepdim).to(dtype)


def _counts(input, dim, keepdim, mask):
    return _mask_of(input, mask).sum(_dims(input, dim), keepdim)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean; NaN where all is masked out."""
    input = input if dtype is None else input.to(dtype)
    if not (input.is_floating_point() or input.is_complex()):
        raise ValueError(f"mean(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {input.dtype}")
    return sum(input, dim, keepdim=keepdim, mask=mask) / _counts(input, dim, keepdim, mask)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The lower median; NaN where all is masked out."""
    input = input if dtype is None else input.to(dtype)
    if not input.is_floating_point():
        raise ValueError("input must be floating type")
    return _filled(input, mask, float("nan")).nanmedian(dim, keepdim).values


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The logarithm of the sum of exponentials, in the dtype that sums have: of integers it is int64."""
    input = _typed(input, dtype)
    return _filled(input, mask, _least(input.dtype)).logsumexp(_dims(input, dim), keepdim).to(input.dtype)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The vector norm."""
    input = input if dtype is None else input.to(dtype)
    return taper.linalg.vector_norm(_filled(input, mask, _inf if ord == -_inf else 0), ord, _dims(input, dim), keepdim)


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The variance, with one element less in the denominator unless unbiased=False."""
    if correction is not None and unbiased is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    correction = int(unbiased if unbiased is not None else True) if correction is None else correction
    input = input.to(dtype if dtype is not None else input.dtype if input.is_floating_point() or input.is_complex() else taper.get_default_dtype())
    away = input - mean(input, dim, keepdim=True, mask=mask)
    squares = away * away.conj() if away.is_complex() else away * away
    left = _counts(input, dim, keepdim, mask) - correction
    return sum(squares, dim, keepdim=keepdim, mask=mask) / left.clamp_min(0)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The standard deviation."""
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def cumsum(input, dim, *, dtype=None, mask=None):
    """Running sums, over what is masked out as if it were not there."""
    return _filled(_typed(input, dtype), mask, 0).cumsum(dim)


def cumprod(input, dim, *, dtype=None, mask=None):
    """Running products."""
    return _filled(_typed(input, dtype), mask, 1).cumprod(dim)


def softmax(input, dim, *, dtype=None, mask=None):
    """Softmax among the elements that are not masked out; others are 0."""
    input = _typed(input, dtype)
    return _filled(input, mask, _least(input.dtype)).softmax(dim)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """The logarithm of softmax."""
    input = _typed(input, dtype)
    return _filled(input, mask, _least(input.dtype)).log_softmax(dim)


def softmin(input, dim, *, dtype=None, mask=None):
    """Softmax of the negative."""
    input = _typed(input, dtype)
    return taper.nn.functional.softmin(_filled(input, mask, _most(input.dtype)), dim)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """Divided by the norm."""
    input = input if dtype is None else input.to(dtype)
    length = norm(input, ord, dim, keepdim=True, mask=mask)
    return _filled(input, mask, 0) / taper.maximum(length, taper.full_like(length, eps))


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)); what is masked out of one of them counts as -inf."""
    input, other = (x if dtype is None else x.to(dtype) for x in (input, other))
    return taper.logaddexp(_filled(input, input_mask, -_inf), _filled(other, other_mask, -_inf))
