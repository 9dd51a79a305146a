"""torch.sparse: functions over tensors of which only some elements are stored (_tensor.py has the tensors
themselves)."""

import taper
from taper import _C
from taper.sparse import _kernels, _products
from taper.sparse import _make
from taper.sparse._gradcheck import as_sparse_gradcheck  # noqa: F401
from taper.sparse._make import sparse_coo_tensor
from taper.sparse._tensor import Sparse, coo, entries, group_of, keys_of


def mm(mat1, mat2, reduce="sum"):
    """The product of a sparse matrix and a dense or sparse one; reduce says how the summands of a row join."""
    return _products.mm(mat1, mat2) if reduce == "sum" else _products.mm_reduced(mat1, mat2, reduce)


def addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """beta * mat + alpha * (mat1 @ mat2)."""
    return _products.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input, dim=None, dtype=None):
    """The sum over dims: sparse as long as a sparse dim is left."""
    if not isinstance(input, Sparse):
        raise RuntimeError("sparse.sum: expected a sparse tensor")
    return input.sum(dtype=dtype) if dim is None else _products.sum_dims(input, dim, False, dtype)


def softmax(input, dim, *, dtype=None):
    """softmax over the elements that are stored; the others count as minus infinity."""
    return _over_groups(input, dim, dtype, lambda shifted, total: shifted.exp() / total)


def log_softmax(input, dim, *, dtype=None):
    """The logarithm of softmax over the elements that are stored."""
    return _over_groups(input, dim, dtype, lambda shifted, total: shifted - total.log())


def _over_groups(input, dim, dtype, finish):
    """Groups are the stored elements that differ in dim alone."""
    made = (input if dtype is None else input.to(dtype)).coalesce()
    at, values = entries(made)
    dim %= made.dim()
    if dim >= made.sparse_dim():
        over = dim - made.sparse_dim() + 1
        return coo(
            at,
            finish(
                values - values.amax(over, True).detach(),
                (values - values.amax(over, True).detach()).exp().sum(over, True),
            ),
            made.shape,
            True,
        )
    group, count = group_of(keys_of(at, made.shape, without=dim))
    index = group.view(-1, *[1] * (values.dim() - 1)).expand_as(values)
    empty = values.detach().new_full((count, *values.shape[1:]), float("-inf"))
    shifted = values - empty.scatter_reduce(0, index, values.detach(), "amax")[group]
    total = empty.new_zeros(empty.shape).index_add(0, group, shifted.exp())[group]
    return coo(at, finish(shifted, total), made.shape, True)


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0):
    """beta * input + alpha * (mat1 @ mat2), at the elements that input stores alone."""
    at, values = entries(input)
    return input._like(values=beta * values + alpha * _kernels.dots(at, mat1, mat2.t()))


def spdiags(diagonals, offsets, shape, layout=None):
    """A sparse matrix with the rows of diagonals along the diagonals that offsets names."""
    diagonals, offsets = taper.atleast_2d(diagonals), taper.atleast_1d(offsets)
    rows, columns, values = [], [], []
    for diagonal, offset in zip(diagonals, offsets.tolist()):
        column = taper.arange(max(offset, 0), min(shape[1], shape[0] + offset, diagonal.shape[0]))
        rows.append(column - offset)
        columns.append(column)
        values.append(diagonal[column])
    made = sparse_coo_tensor(taper.stack([taper.cat(rows), taper.cat(columns)]), taper.cat(values), shape)
    return made if layout in (None, _C.sparse_coo) else made.to_sparse(layout=layout)


class check_sparse_tensor_invariants:
    """Checks the parts of every sparse tensor that is made: inside of a with block, in a function it decorates, or from
    enable() to disable()."""

    def __init__(self, enable=True):
        self._wanted = enable
        self._before = None

    def __enter__(self):
        if self._before is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context manager instance for "
                "context nesting."
            )
        self._before, _make.always_check[0] = _make.always_check[0], self._wanted

    def __exit__(self, *error):
        if self._before is None:
            raise AssertionError("saved_state should not be None")
        _make.always_check[0], self._before = self._before, None

    def __call__(self, function):
        from functools import wraps

        @wraps(function)
        def checked(*args, **kwargs):
            with type(self)(self._wanted):
                return function(*args, **kwargs)

        return checked

    @staticmethod
    def is_enabled():
        return _make.always_check[0]

    @staticmethod
    def enable():
        _make.always_check[0] = True

    @staticmethod
    def disable():
        _make.always_check[0] = False


class _OfType(type):
    """The old classes torch.sparse.FloatTensor and the like: they make tensors of a dtype, and answer isinstance."""

    def __call__(cls, indices=None, values=None, size=None):
        if isinstance(indices, (tuple, taper.Size)):
            return sparse_coo_tensor(size=indices, dtype=cls.dtype)
        return sparse_coo_tensor(indices, values, size, dtype=cls.dtype)

    def __instancecheck__(cls, instance):
        return isinstance(instance, Sparse) and instance.dtype == cls.dtype


def _old(word, dtype):
    return _OfType(
        word + "Tensor", (), {"dtype": dtype, "__module__": "torch.sparse", "__doc__": f"Sparse tensors of {dtype}."}
    )


BFloat16Tensor, ByteTensor, CharTensor, DoubleTensor, FloatTensor, HalfTensor, IntTensor, LongTensor, ShortTensor = (
    _old(word, getattr(taper, dtype))
    for word, dtype in (
        ("BFloat16", "bfloat16"),
        ("Byte", "uint8"),
        ("Char", "int8"),
        ("Double", "float64"),
        ("Float", "float32"),
        ("Half", "float16"),
        ("Int", "int32"),
        ("Long", "int64"),
        ("Short", "int16"),
    )
)
