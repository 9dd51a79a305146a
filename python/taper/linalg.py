"""torch.linalg: the linear algebra of the table."""

from functools import wraps

from taper import _C
from taper._C import Tensor
from taper._C import _functions as _op

globals().update(_C._namespace("linalg"))
LinAlgError = _C._LinAlgError


def _numpy_words(function):
    """The function, which also knows its arguments by the names that operators know them by."""
    words = {"input": "A", "x": "A", "a": "A", "axis": "dim", "keepdims": "keepdim"}

    @wraps(function)
    def called(*args, **options):
        if not options.keys().isdisjoint(words):
            options = {words.get(word, word): value for word, value in options.items()}
        return function(*args, **options)

    return called


@_numpy_words
def norm(A, ord=None, dim=None, keepdim=False, *, out=None, dtype=None):
    """A vector's or matrix's norm, by the number of dims."""
    extra = {} if out is None else {"out": out}
    if ord is None:
        flat = dim is None and not keepdim
        result = vector_norm(A.flatten() if flat else A, 2, None if dim is None else dim, keepdim, dtype=dtype, **extra)
        return result
    if isinstance(dim, int) or (dim is not None and len(dim) == 1) or (dim is None and A.dim() == 1):
        if isinstance(ord, str):
            if A.dim() < 2:
                raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
            raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}")
        return vector_norm(A, ord, dim, keepdim, dtype=dtype, **extra)
    if dim is None and A.dim() > 2:
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.dim()}D."
        )
    if dim is not None and len(dim) > 2:
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    return matrix_norm(A, ord, (-2, -1) if dim is None else tuple(dim), keepdim, dtype=dtype, **extra)


_matrix_rank = matrix_rank  # noqa: F821  (the operator's)


@_numpy_words
def matrix_rank(A, *args, tol=None, **options):
    """How many singular values are larger than a tolerance; `tol` is the old word for atol, and comes before
    hermitian."""
    if tol is None and args and (len(args) == 1 or isinstance(args[1], bool)):
        tol, args = args[0], args[1:]
        if args:
            options["hermitian"] = args[0]
            args = ()
    if tol is not None:
        if not isinstance(tol, Tensor) and not isinstance(tol, (int, float)):
            return _matrix_rank(A, tol, *args, **options)
        return _matrix_rank(A, atol=tol, rtol=Tensor.new_zeros(tol, ()) if isinstance(tol, Tensor) else 0.0, **options)
    return _matrix_rank(A, *args, **options)


_pinv = pinv  # noqa: F821  (the operator's)


def pinv(input, rcond=None, hermitian=False, *, atol=None, rtol=None, out=None):
    """The pseudo-inverse; `rcond` is the old word for rtol, and comes before hermitian."""
    extra = {} if out is None else {"out": out}
    if rcond is not None and (atol is not None or rtol is not None):
        raise TypeError("linalg_pinv(): rcond is another word for rtol, and is not given with atol or rtol")
    return _pinv(input, atol, rtol if rcond is None else rcond, hermitian, **extra)


def multi_dot(tensors, *, out=None):
    """The product of the matrices, multiplied in the cheapest order."""
    return _op["linalg_multi_dot"](list(tensors)) if out is None else _op["linalg_multi_dot"](list(tensors), out=out)
