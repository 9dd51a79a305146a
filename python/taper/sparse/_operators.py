"""What operators do with sparse tensors, by the operator's name. A name that is not here raises PyTorch's error."""

import taper
from taper import _C
from taper.overrides import DisableTorchFunctionSubclass
from taper.sparse import _layouts, _products
from taper.sparse._make import dtype_word, empty, with_dims
from taper.sparse._tensor import BLOCKS, WORDS, Sparse, compressed, coo, entries, merged, plain

# Of the values alone: dtype, device, history, hooks.
_AS_VALUES = frozenset(
    """__get__ __set__ is_floating_point is_complex is_signed register_hook retain_grad get_device is_inference
    element_size
    register_post_accumulate_grad_hook __hash__ _is_view is_pinned is_shared is_conj is_neg""".split()
)
# Element by element with f(0) = 0: on values, which must be whole sums unless f is linear. These are the ones that
# PyTorch has for sparse tensors; others it refuses, and so do we.
_LINEAR = frozenset("neg negative positive contiguous real imag conj conj_physical resolve_conj resolve_neg".split())
_MAPS = frozenset(
    """abs absolute sqrt square sin tan asin atan sinh tanh asinh atanh arcsin arctan arcsinh arctanh sign sgn relu
    floor ceil trunc fix round expm1 log1p erf
    erfinv deg2rad rad2deg frac nan_to_num isnan isinf isposinf isneginf signbit angle threshold leaky_relu""".split()
)
_CASTS = frozenset(
    (
        "to float double half bfloat16 int long short char byte bool cpu cuda xpu type_as cfloat cdouble pin_memory "
        "requires_grad_"
    ).split()
)


def run(func, args, kwargs):
    """A call with a sparse tensor among its arguments."""
    name = func.__name__
    if name in _AS_VALUES or name == "backward":
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if name in _CASTS:
        return _cast(func, name, args, kwargs)
    out = kwargs.pop("out", None)
    if out is not None and name in ("zeros", "empty"):
        return _become(out, empty(_size_of(args), out.layout, kwargs.get("dtype") or out.dtype, out.device))
    if out is not None:
        return _write_out(out, run(func, args, kwargs) if _has_sparse(args) else func(*args, **kwargs))
    base = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    if base in _LINEAR or base in _MAPS:
        return _map(func, base, base != name, *args, **kwargs)
    found = _BY_NAME.get(name) or Sparse.__dict__.get(name)
    if not callable(found):
        refuse(name, next((a for a in args if isinstance(a, Sparse)), None))
    return found(*args, **kwargs)


def _has_sparse(args):
    return any(isinstance(a, Sparse) or isinstance(a, (list, tuple)) and _has_sparse(a) for a in args)


def refuse(name, sparse):
    """Raises the error of an operator that is not there for sparse tensors."""
    word = "SparseCsr" if sparse is not None and sparse.layout is not _C.sparse_coo else "Sparse"
    device = "CPU" if sparse is None or sparse.device.type == "cpu" else sparse.device.type.upper()
    name = name.strip("_") if name.startswith("__") else name
    raise NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{word}{device}' backend. This could be because the "
        "operator doesn't exist for this backend; Tensor.to_dense() gives a tensor that has it."
    )


def _write_out(out, made):
    """out= of an operator that made `made`."""
    if isinstance(out, Sparse) != isinstance(made, Sparse):
        raise RuntimeError(
            f"Expected self.is_sparse() && result.is_sparse() to be true, but got false: out is {WORDS[out.layout]}, "
            f"the result {WORDS[made.layout]}"
        )
    if isinstance(out, Sparse):
        return _become(out, made)
    if out.shape != made.shape:
        out.resize_(made.shape)
    return out.copy_(made)


def _cast(func, name, args, kwargs):
    self = args[0]
    if not isinstance(self, Sparse):  # dense.to(sparse), dense.type_as(sparse)
        return func(self, plain(args[1]), *args[2:], **kwargs)
    others = [plain(a) if isinstance(a, Sparse) else a for a in args[1:]]
    with DisableTorchFunctionSubclass():
        values = func(self, *others, **kwargs)
    if values is self:
        return self
    values = plain(values)
    if values.is_meta and not self.is_meta:  # what is stored is not known there
        return _nothing_stored(self, device="meta", dtype=values.dtype)
    if values.device == self.device:
        return self._like(values=values)
    if self.layout is _C.sparse_coo:
        return self._like(at=self._at.to(values.device), values=values)
    return self._like(first=self._compressed.to(values.device), others=self._plain.to(values.device), values=values)


_OTHER_NAMES = _C._operator_aliases()


def _map(func, base, in_place, self, *args, **kwargs):
    if in_place and base in _MAPS and self.layout is _C.sparse_coo and not self._coalesced:
        raise RuntimeError(f"{_OTHER_NAMES.get(base, base)}_ requires coalesced input")
    made = self.coalesce() if base in _MAPS and self.layout is _C.sparse_coo else self
    if in_place:
        with DisableTorchFunctionSubclass():
            func(self, *args, **kwargs)
        return self
    return made._like(values=func(plain(made), *args, **kwargs))


def _number(x):
    """Is it a number, or a tensor that holds one?"""
    return not isinstance(x, _C.Tensor) or (not isinstance(x, Sparse) and x.dim() == 0)


# ---- Sums ----
def _same_size(name, a, b, what):
    if a.shape != b.shape:
        raise RuntimeError(
            f"{name}: expected 'self' and 'other' to have same size, but self has size {list(a.shape)} while other "
            f"has size {list(b.shape)} (FYI: {what} addition does not currently support broadcasting)"
        )


def _add(self, other, *, alpha=1):
    if (
        isinstance(self, Sparse)
        and self.layout is not _C.sparse_coo
        and isinstance(other, _C.Tensor)
        and not isinstance(other, Sparse)
    ):
        return _add(other, self, alpha=1) if alpha == 1 else alpha * other + self
    if not isinstance(other, Sparse):
        if self.layout is not _C.sparse_coo:
            _same_size("add", taper.tensor(0), self, "op2-sparse")
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if not isinstance(self, Sparse):
        self = taper.as_tensor(self)
        _same_size("add", self, other, "dense-sparse")
        return self + alpha * other.to_dense()
    if self.shape != other.shape and self.layout is not _C.sparse_coo:
        raise RuntimeError(
            f"Expected input tensors to have the same shape, but got tensor `self` with shape {list(self.shape)} and "
            f"tensor `other` with shape {list(other.shape)}"
        )
    if self.shape != other.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(self.shape)} != {list(other.shape)}"
        )
    if self.layout is not _C.sparse_coo:
        return _add_compressed(self, other, alpha)
    if self.sparse_dim() != other.sparse_dim() and self._nnz() and other._nnz():
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same number of sparse dimensions, but got {self.sparse_dim()} "
            f"and {other.sparse_dim()}"
        )
    if self.sparse_dim() != other.sparse_dim():
        return _nothing_plus(self, other, alpha)
    if self.is_meta:
        return _nothing_stored(self, dtype=taper.promote_types(self.dtype, other.dtype))
    (at, values), (other_at, other_values) = entries(self), entries(other)
    made = coo(taper.cat([at, other_at], 1), _both_values(values, other_values, alpha), self.shape)
    return made.coalesce() if self.is_coalesced() and other.is_coalesced() else made


def _both_values(values, other_values, alpha):
    """The values of both, the other's times alpha: in the sum's dtype before they are multiplied."""
    other_values = other_values.to(taper.promote_types(values.dtype, other_values.dtype))
    return taper.cat([values, other_values if alpha == 1 else alpha * other_values])


def _nothing_plus(self, other, alpha):
    """A sum of which one stores nothing, and may have other sparse dims for that."""
    dtype = taper.promote_types(self.dtype, other.dtype)
    return (self if self._nnz() else other * alpha).to(dtype)


def _add_compressed(self, other, alpha):
    if self.layout is not other.layout:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have the same layout, but got {WORDS[self.layout]} and "
            f"{WORDS[other.layout]}"
        )
    if self.is_meta:
        return _nothing_stored(self, dtype=taper.promote_types(self.dtype, other.dtype))
    at, values, count = self._blocks()
    other_at, other_values, _ = other._blocks()
    both = merged(taper.cat([at, other_at], 1), _both_values(values, other_values, alpha), count)
    return _layouts.pack(*both, count, self.shape, self.layout, self._compressed.dtype)


def _become(self, made, name="add"):
    """In place: self takes another's places and values, and keeps its dtype."""
    values = plain(made).detach()
    if not _C.can_cast(values.dtype, self.dtype):
        raise RuntimeError(
            f"result type {dtype_word(values.dtype)} can't be cast to the desired output type {dtype_word(self.dtype)}"
        )
    _C.Tensor.data.__set__(self, values.to(self.dtype))
    for part in "_at", "_compressed", "_plain", "_coalesced", "_size", "_layout":
        if part in made.__dict__:
            self.__dict__[part] = made.__dict__[part]
    return self


def _sub(self, other, *, alpha=1):
    if isinstance(self, Sparse) and self.layout is _C.sparse_coo and not isinstance(other, Sparse):
        raise RuntimeError("sub(sparse, dense) is not supported. Use sub(dense, sparse) instead.")
    return _add(self, other, alpha=-alpha)


# ---- Products element by element ----
def _mul(self, other):
    if not isinstance(self, Sparse):
        self, other = other, self
    if _number(other):
        return self._like(values=plain(self) * other)
    if isinstance(other, Sparse):
        if other.dim() == 0 and self.dim():
            return _mul(self, other.to_dense())
        if self.dim() == 0 and other.dim():
            return _mul(other, self.to_dense())
        return _products.mul_sparse(self, other)
    return _products.mul_dense(self, other)


def _div(self, other, *, rounding_mode=None):
    if not isinstance(self, Sparse) or isinstance(other, Sparse) or not _number(other):
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(getattr(other, 'shape', []))} for divisor)"
        )
    if self.layout is not _C.sparse_coo:
        raise RuntimeError(f"unsupported tensor layout: {WORDS[self.layout]}")
    made = self if rounding_mode is None else self.coalesce()
    return made._like(values=plain(made).div(other, rounding_mode=rounding_mode))


def _floor_divide(self, other):
    if isinstance(other, Sparse) or not _number(other):
        raise RuntimeError(
            "Sparse floor division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(getattr(other, 'shape', []))} for divisor)"
        )
    return _div(self, other, rounding_mode="floor")


def _pow(self, exponent):
    if isinstance(exponent, Sparse) or isinstance(exponent, _C.Tensor) and exponent.dim():
        refuse("pow", self)
    if exponent == 0:
        if self.layout is not _C.sparse_coo:
            refuse("pow", self)
        return taper.ones(self.shape, dtype=self.dtype, device=self.device)
    made = self.coalesce() if self.layout is _C.sparse_coo else self
    return made._like(values=plain(made) ** exponent)


def _in_place(operator, name):
    """The operator in place; a dense self stays dense, whatever a sparse other one is."""

    def write(self, other, **kwargs):
        if not isinstance(self, Sparse):
            return getattr(self, name + "_")(other.to_dense(), **kwargs)
        made = operator(self, other, **kwargs)
        if not isinstance(made, Sparse):
            raise RuntimeError(
                f"{name}_: the result of a sparse and a dense tensor is dense, and cannot replace the sparse one"
            )
        if not _C.can_cast(made.dtype, self.dtype):
            raise RuntimeError(
                f"Can't convert result type {dtype_word(made.dtype)} to output {dtype_word(self.dtype)} in {name} "
                "operation"
            )
        return _become(self, made, name)

    return write


def _zero_(self):
    if self.layout is not _C.sparse_coo:
        plain(self).detach().zero_()
        return self
    at, values = entries(self)
    return _become(self, coo(at[:, :0], values.detach()[:0], self.shape, True))


def _copy_(self, src, non_blocking=False):
    if not isinstance(self, Sparse):
        return self.copy_(src.to_dense())
    if self.layout is not _C.sparse_coo:
        _check_copy(self, src)
        return _become(self, src._copy().to(self.dtype))
    if not isinstance(src, Sparse):
        raise RuntimeError(
            f"copy_() between dense and sparse Tensors is not implemented! Found self type = {self.type()} and src "
            f"type = {src.type()}"
        )
    return _become(self, src._copy().to(self.dtype))


def _check_copy(self, src):
    if src.layout is not self.layout:
        raise RuntimeError(
            "copy of sparse compressed tensors having different layouts is not supported. self layout is "
            f"{WORDS[self.layout]} and src layout is {WORDS[src.layout]}"
        )
    if self._nnz() != src._nnz():
        raise RuntimeError(
            "copy_: only sparse compressed tensors with the same number of specified elements are supported."
        )
    for dim, (a, b) in enumerate(zip(self.shape, src.shape)):
        if a != b:
            raise RuntimeError(
                f"copy_: expected shapes of self and src to match along dimension {dim} for {WORDS[self.layout]} "
                f"layout but the corresponding dimensions of self and src are {a} and {b}, respectively."
            )
    if self._blocksize() != src._blocksize():
        raise RuntimeError("copy of sparse compressed tensors having different block sizes is not supported")


# ---- Shapes ----
def _transpose(self, dim0, dim1):
    dim0, dim1 = dim0 % self.dim(), dim1 % self.dim()
    if dim0 == dim1:
        return self
    count = self.sparse_dim()
    size = list(self.shape)
    size[dim0], size[dim1] = size[dim1], size[dim0]
    if self.layout is not _C.sparse_coo:
        return _transpose_compressed(self, dim0, dim1, size)
    if dim0 >= count and dim1 >= count:
        return self._like(values=plain(self).transpose(dim0 - count + 1, dim1 - count + 1), size=size)
    if dim0 >= count or dim1 >= count:
        raise RuntimeError("transpose: can't transpose sparse and dense dimensions")
    order = list(range(count))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return self._like(at=self._at[order], size=size, coalesced=self._nnz() < 2)


_TURNED = {
    _C.sparse_csr: _C.sparse_csc,
    _C.sparse_csc: _C.sparse_csr,
    _C.sparse_bsr: _C.sparse_bsc,
    _C.sparse_bsc: _C.sparse_bsr,
}


def _transpose_compressed(self, dim0, dim1, size):
    """Within the batch both move; the two sparse dims change places by the layout alone."""
    batch, (dim0, dim1) = len(self._batch()), sorted((dim0, dim1))
    if dim1 < batch:
        return compressed(
            self._compressed.transpose(dim0, dim1),
            self._plain.transpose(dim0, dim1),
            plain(self).transpose(dim0, dim1),
            size,
            self.layout,
        )
    if (dim0, dim1) != (batch, batch + 1):
        raise RuntimeError(
            "transpose(): can only transpose dimensions of the same type (Batch, Sparse, Dense), got "
            f"{_kind(self, dim0)} and {_kind(self, dim1)}"
        )
    values = plain(self)
    if self.layout in BLOCKS:
        values = values.transpose(batch + 1, batch + 2)
    return compressed(self._compressed, self._plain, values, size, _TURNED[self.layout])


def _kind(self, dim):
    batch = len(self._batch())
    return "Batch" if dim < batch else "Sparse" if dim < batch + 2 else "Dense"


def _t(self):
    if self.dim() > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {self.sparse_dim()} sparse and "
            f"{self.dense_dim()} dense dimensions"
        )
    return self if self.dim() < 2 else _transpose(self, 0, 1)


def _permute(self, *dims, **kwargs):
    dims = dims or (kwargs["dims"],)
    asked = list(dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims)
    if len(asked) != self.dim():
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {self.dim()} is not equal to len(dims) = {len(asked)}"
        )
    if len({d % self.dim() for d in asked}) != len(asked):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    dims = [d % self.dim() for d in (dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims)]
    count = self.sparse_dim()
    if sorted(dims[:count]) != list(range(count)):
        raise RuntimeError(
            "permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed. "
            f"Found transposition between sparse and dense dimensions in {asked}"
        )
    values = plain(self)
    if self.dense_dim():
        values = values.permute(0, *(d - count + 1 for d in dims[count:]))
    return self._like(
        at=self._at[dims[:count]],
        values=values,
        size=[self.shape[d] for d in dims],
        coalesced=self.is_coalesced() and asked[:1] == [0] and dims[:count] == list(range(count)),
    )


def _unsqueeze(self, dim):
    dim %= self.dim() + 1
    size = [*self.shape[:dim], 1, *self.shape[dim:]]
    at, count = self._at, self.sparse_dim()
    if dim > count:
        return self._like(values=plain(self).unsqueeze(dim - count + 1), size=size)
    return self._like(
        at=taper.cat([at[:dim], taper.zeros_like(at[:1]) if count else at.new_zeros(1, self._nnz()), at[dim:]]),
        size=size,
    )


def _squeeze(self, dim=None):
    dims = [d for d in range(self.dim()) if self.shape[d] == 1 and (dim is None or d == dim % self.dim())]
    left = [d for d in range(self.sparse_dim()) if d not in dims]
    inner = [d - self.sparse_dim() + 1 for d in dims if d >= self.sparse_dim()]
    values = plain(self)
    for d in reversed(inner):
        values = values.squeeze(d)
    return self._like(at=self._at[left], values=values, size=[n for d, n in enumerate(self.shape) if d not in dims])


def _keep(self, dim, kept, shift, size):
    at = self._at[:, kept].clone()
    at[dim] -= shift
    return self._like(at=at, values=plain(self)[kept], size=size)


def _select(self, dim, index):
    dim %= self.dim()
    n, count = self.shape[dim], self.sparse_dim()
    if not -n <= index < n:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.shape)} at dimension {dim}"
        )
    index %= n
    size = [*self.shape[:dim], *self.shape[dim + 1 :]]
    if self.layout is not _C.sparse_coo:
        return _select_compressed(self, dim, index, size)
    if dim >= count:
        return self._like(values=plain(self).select(dim - count + 1, index), size=size)
    kept = self._at[dim] == index
    if count == 1:
        found = plain(self)[kept]
        return found.any(0) if found.dtype == _C.bool else found.sum(0, dtype=found.dtype)
    return self._like(
        at=taper.cat([self._at[:dim, kept], self._at[dim + 1 :, kept]]), values=plain(self)[kept], size=size
    )


def _select_compressed(self, dim, index, size):
    batch = len(self._batch())
    if dim < batch:
        return compressed(
            self._compressed.select(dim, index),
            self._plain.select(dim, index),
            plain(self).select(dim, index),
            size,
            self.layout,
        )
    if dim >= batch + 2:
        return compressed(
            self._compressed,
            self._plain,
            plain(self).select(dim - 1 + 2 * (self.layout in BLOCKS), index),
            size,
            self.layout,
        )
    if batch:
        raise RuntimeError(
            "select(): selecting sparse dimensions is not supported for batched sparse compressed tensors."
        )
    return _select(self.to_sparse().coalesce(), dim, index)


def _narrow(self, dim, start, length):
    if self.layout is not _C.sparse_coo:
        raise RuntimeError("Sparse CSR tensors do not have strides")
    dim %= self.dim()
    count = self.sparse_dim()
    size = [*self.shape[:dim], length, *self.shape[dim + 1 :]]
    if dim >= count:
        return self._like(values=plain(self).narrow(dim - count + 1, start, length), size=size)
    row = self._at[dim]
    return _keep(self, dim, (row >= start) & (row < start + length), start, size)


def _index_select(self, dim, index):
    """Rows of a dim in the order of index: each stored element goes to all places that ask for its row."""
    dim %= self.dim()
    count = self.sparse_dim()
    size = [*self.shape[:dim], index.shape[0], *self.shape[dim + 1 :]]
    if dim >= count:
        return self._like(values=plain(self).index_select(dim - count + 1, index), size=size)
    asked = index.argsort(stable=True)
    counts = index.bincount(minlength=self.shape[dim])
    first, times = counts.cumsum(0) - counts, counts[self._at[dim]]
    mine = taper.arange(self._nnz()).repeat_interleave(times)
    within = taper.arange(mine.shape[0]) - (times.cumsum(0) - times).repeat_interleave(times)
    at = self._at[:, mine].clone()
    at[dim] = asked[first[self._at[dim]].repeat_interleave(times) + within]
    made = coo(at, plain(self)[mine], size)
    return made.coalesce() if self.is_coalesced() else made


def _getitem(self, key):
    keys = list(key) if isinstance(key, tuple) else [key]
    if Ellipsis in [k for k in keys if k is Ellipsis]:
        at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        keys[at : at + 1] = [slice(None)] * (self.dim() - len(keys) + 1)
    made, dim = self, 0
    for k in keys:
        if isinstance(k, slice) and k.step in (None, 1):
            start, stop, _ = k.indices(made.shape[dim])
            made = made if (start, stop) == (0, made.shape[dim]) else _narrow(made, dim, start, max(stop - start, 0))
            dim += 1
        elif k is None:
            made = _unsqueeze(made, dim)
            dim += 1
        elif isinstance(k, _C.Tensor) and k.dim() == 1:
            made = _index_select(made, dim, k.nonzero().flatten() if k.dtype == _C.bool else k)
            dim += 1
        else:
            made = made.select(dim, k.__index__())
    return made


def _shifted(tensors, dim):
    start = 0
    for t in tensors:
        at = t._at.clone()
        at[dim] += start
        start += t.shape[dim]
        yield at


def _cat(tensors, dim=0):
    if not all(isinstance(t, Sparse) for t in tensors):
        raise RuntimeError("Concatenating sparse tensors, but a dense tensor was found")
    first = tensors[0]
    dim %= first.dim()
    size = list(first.shape)
    size[dim] = sum(t.shape[dim] for t in tensors)
    if dim >= first.sparse_dim():
        return taper.cat([t.to_dense() for t in tensors], dim).to_sparse(first.sparse_dim())
    return coo(
        taper.cat(list(_shifted(tensors, dim)), 1),
        taper.cat([plain(t) for t in tensors]),
        size,
        dim == 0 and all(t.is_coalesced() for t in tensors),
    )


def _stack(tensors, dim=0):
    return _cat([_unsqueeze(t, dim) for t in tensors], dim)


# ---- Reductions ----
def _sum(self, dim=None, keepdim=False, *, dtype=None):
    if dim is None or not isinstance(dim, int) and len(dim) == 0:
        return plain(self).sum(dtype=dtype)
    if self.layout is _C.sparse_coo:
        return _products.sum_dims(self, dim, keepdim, dtype)
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    if len(self._batch()) or self.dense_dim():
        raise RuntimeError("reduction operations on CSR tensors with batch or dense dims are unsupported")
    return _products.sum_dims(self.to_sparse(), dim, True, dtype).to_sparse(layout=self.layout)


def _norm(self, p="fro", dim=None, keepdim=False, dtype=None):
    if dim is not None and (isinstance(dim, int) or len(dim)):
        if sorted(d % self.dim() for d in ([dim] if isinstance(dim, int) else dim)) != list(range(self.dim())):
            raise RuntimeError(
                "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all "
                "dimensions of the input"
            )
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    if dtype is not None:
        raise RuntimeError("norm_sparse currently does not support 'dtype' argument")
    return plain(self.coalesce() if self.layout is _C.sparse_coo else self).norm(p="fro" if p is None else p)


def _any(self):
    return plain(self).any()


# ---- Makers ----
def _clone(self, memory_format=None):
    if memory_format not in (None, _C.preserve_format):
        raise RuntimeError(f"unsupported memory format option {memory_format}")
    return self._copy()


def _size_of(size):
    return size[0] if len(size) == 1 and not isinstance(size[0], int) else size


def _new_empty(self, *size, dtype=None, device=None, layout=None, requires_grad=False, pin_memory=False):
    made = empty(_size_of(size), layout or self.layout, dtype or self.dtype, device or self.device)
    return made.requires_grad_() if requires_grad else made


def _nothing_stored(self, device=None, dtype=None):
    """The same size and layout, without elements."""
    device, dtype = device or self.device, dtype or self.dtype
    values = plain(self)
    if self.layout is _C.sparse_coo:
        return coo(
            taper.zeros(self.sparse_dim(), 0, dtype=taper.int64, device=device),
            taper.zeros(0, *values.shape[1:], dtype=dtype, device=device),
            self.shape,
            True,
        )
    batch, index = self._batch(), self._compressed.dtype
    return compressed(
        taper.zeros(self._compressed.shape, dtype=index, device=device),
        taper.zeros(*batch, 0, dtype=index, device=device),
        taper.zeros(*batch, 0, *values.shape[len(batch) + 1 :], dtype=dtype, device=device),
        self.shape,
        self.layout,
    )


def _zeros_like(
    self, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, memory_format=None
):
    layout = layout or self.layout
    if layout is _C.strided:
        made = taper.zeros(self.shape, dtype=dtype or self.dtype, device=device or self.device)
    elif layout is self.layout:
        made = _nothing_stored(self, device, dtype)
    elif layout is _C.sparse_coo:
        count = self.dim() - self.dense_dim()
        made = coo(
            taper.zeros(count, 0, dtype=taper.int64, device=device or self.device),
            taper.zeros(0, *self.shape[count:], dtype=dtype or self.dtype, device=device or self.device),
            self.shape,
            True,
        )
    else:
        made = _nothing_in_layout(self, layout, device or self.device, dtype or self.dtype)
    return made.requires_grad_() if requires_grad else made


def _nothing_in_layout(self, layout, device, dtype):
    """The same size in another compressed layout, without elements."""
    dense, block = self.dense_dim(), () if self.layout is _C.sparse_coo else self._blocksize()
    if (layout in BLOCKS) != bool(block):
        raise RuntimeError(
            f"zeros_like with different sparse layout is not supported (self is {WORDS[self.layout]} but you "
            f"requested {WORDS[layout]})"
        )
    index = _C.int64 if self.layout is _C.sparse_coo else self._compressed.dtype
    return with_dims(0, dense, self.shape, block, index, dtype=dtype, layout=layout, device=device)


def _empty_like(
    self, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, memory_format=None
):
    layout = layout or self.layout
    if layout is _C.strided:
        return taper.empty(
            self.shape, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad
        )
    if layout is not self.layout:
        raise RuntimeError(
            f"empty_like with different sparse layout is not supported (self is {WORDS[self.layout]} but you "
            f"requested {WORDS[layout]})"
        )
    if self.layout is _C.sparse_coo:
        made = _nothing_stored(self, device, dtype)
    else:
        device = device or self.device
        made = compressed(
            self._compressed.detach().clone().to(device),
            self._plain.detach().clone().to(device),
            taper.empty_like(plain(self).detach(), dtype=dtype or self.dtype, device=device),
            self.shape,
            self.layout,
        )
    return made.requires_grad_() if requires_grad else made


def _like(name):
    """ones_like and its kin: of compressed tensors, at the places that are stored."""

    def make(self, *args, dtype=None, layout=None, device=None, requires_grad=False, **kwargs):
        if layout is _C.strided:
            return getattr(taper, name)(
                plain(self).new_empty(self.shape), *args, dtype=dtype, device=device, requires_grad=requires_grad
            )
        if self.layout is _C.sparse_coo or name == "rand_like":
            refuse(
                {"ones_like": "fill_.Scalar", "full_like": "fill_.Scalar", "randn_like": "normal_"}.get(
                    name, "uniform_"
                ),
                self,
            )
        made = self._like(values=getattr(taper, name)(plain(self).detach(), *args, dtype=dtype, device=device))
        return made.requires_grad_() if requires_grad else made

    return make


def _unbind(self, dim=0):
    return tuple(_select(self, dim, i) for i in range(self.shape[dim]))


def _setitem(self, key, value):
    raise TypeError("Cannot assign to a sparse tensor")


def _view_as_real(self):
    return self._like(values=taper.view_as_real(plain(self)), size=[*self.shape, 2])


def _view_as_complex(self):
    if self.dense_dim() == 0 or self.shape[-1] != 2:
        raise RuntimeError(
            "view_as_complex_sparse is only supported for sparse tensors with the last dim == 2 and dense_dim > 0."
        )
    return self._like(values=taper.view_as_complex(plain(self).contiguous()), size=self.shape[:-1])


def _resize(self, size, sparse_dim, dense_dim):
    """sparse_resize_: other sizes, as long as what is stored still fits."""
    stored, advice = (
        self._nnz(),
        "\n"
        "You could try the following options:\n"
        "1. If you need an empty sparse tensor of this size, call `x = torch.sparse_coo_tensor(size)`.",
    )
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {dense_dim}"
        )
    if stored:
        for word, new, old in (("sparse", sparse_dim, self.sparse_dim()), ("dense", dense_dim, self.dense_dim())):
            if new != old:
                raise RuntimeError(
                    (
                        f"changing the number of {word} dimensions (from {old} to {new}) on a non-empty sparse tensor "
                        "is not supported."
                    )
                    + advice
                )
        for word, part in (("sparse", slice(sparse_dim)), ("dense", slice(sparse_dim, None))):
            if any(new < old for new, old in zip(size[part], self.shape[part])):
                raise RuntimeError(
                    f"shrinking the size of {word} dimensions (from {list(self.shape[part])} to {list(size[part])}) "
                    "on a non-empty sparse tensor is not supported." + advice
                )
        values = plain(self).detach()
        grown = values.new_zeros(stored, *size[sparse_dim:])
        grown[(slice(None), *(slice(n) for n in values.shape[1:]))] = values
        return _become(self, coo(self._at, grown, size, self._coalesced))
    return _resize_and_clear(self, size, sparse_dim, dense_dim)


def _resize_and_clear(self, size, sparse_dim, dense_dim):
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {dense_dim}"
        )
    at = taper.zeros(sparse_dim, 0, dtype=taper.int64, device=self.device)
    return _become(self, coo(at, taper.zeros(0, *size[sparse_dim:], dtype=self.dtype, device=self.device), size, True))


def resize_as(self, other):
    if self.layout is not other.layout:
        for word, given in (("self ", self), ("src ", other)):
            if given.layout is _C.strided:
                raise RuntimeError(
                    f"resize_as_sparse_compressed_: {word} expected sparse compressed tensor layout but got Strided"
                )
        raise RuntimeError(
            "resize_as_sparse_compressed_tensor_: self and src must have the same layout, but got: self "
            f"({WORDS[self.layout]}) and source ({WORDS[other.layout]})"
        )
    if self.layout is not _C.sparse_coo:
        made = other.detach()._copy().to(self.dtype)
        made._compressed, made._plain = made._compressed.to(self._compressed.dtype), made._plain.to(self._plain.dtype)
        return _become(self, made)
    return _resize(self, other.shape, other.sparse_dim(), other.dense_dim())


def new(self, *args):
    """x.new(indices, values, size): the old way to make a COO tensor of x's dtype."""
    from taper.sparse._make import sparse_coo_tensor

    if len(args) >= 2 and isinstance(args[0], _C.Tensor):
        return sparse_coo_tensor(args[0], args[1], *args[2:], dtype=self.dtype, device=self.device)
    if args and not all(isinstance(n, int) for n in _size_of(args)) or len(args) == 1 and isinstance(args[0], list):
        raise TypeError("new(): expected a size, or indices and values")
    return empty(_size_of(args) if args else (0,), _C.sparse_coo, self.dtype, self.device)


def resize_compressed(self, *size):
    size = _size_of(size)
    if self.layout is _C.sparse_coo:
        refuse("resize_", self)
    if len(size) < 2:
        raise RuntimeError(f"torch.resize_: Only batched sparse CSR matrices are supported, but got size {list(size)}")
    if size[-1] < self.shape[-1]:
        raise RuntimeError(
            "torch.resize_: Resizing columns of sparse CSR tensors to a smaller value is not supported. The original "
            f"number of columns is {self.shape[-1]} while the requested new number of columns is {size[-1]}."
        )
    first, batch = self._compressed, tuple(size[:-2])
    rows = size[-2]
    flat = first.reshape(-1, first.shape[-1])
    groups = 1
    for n in batch:
        groups *= n
    if rows >= self.shape[-2]:
        grown = taper.cat([flat, flat[:, -1:].expand(-1, rows - self.shape[-2])], 1)
    else:  # as many elements as the new size has room for stay
        grown = flat[:, : rows + 1].clone()
        grown[:, -1] = min(self._nnz(), rows * size[-1])
    stored = int(grown[0, -1]) if grown.numel() else 0
    grown = taper.cat([grown, grown.new_zeros(max(groups - grown.shape[0], 0), rows + 1)])[:groups].view(
        *batch, rows + 1
    )
    others, values = (
        taper.cat(
            [x.reshape(-1, x.shape[-1])[:groups, :stored], x.new_zeros(max(groups - x[..., 0].numel(), 0), stored)]
        ).view(*batch, stored)
        for x in (self._plain, plain(self).detach())
    )
    return _become(self, compressed(grown, others, values, size, self.layout))


def _reshape(self, *shape):
    raise RuntimeError(
        "reshape is not implemented for sparse tensors"
        if self.layout is _C.sparse_coo
        else "Sparse CSR tensors do not have is_contiguous"
    )


def _is_same_size(self, other):
    return self.shape == other.shape


def _broadcast_to(self, *size):
    return _products.broadcast_to(self, _size_of(size))


_BY_NAME = {
    "add": _add,
    "__add__": _add,
    "__radd__": lambda self, other: _add(other, self),
    "add_": _in_place(_add, "add"),
    "__iadd__": _in_place(_add, "add"),
    "sub": _sub,
    "subtract": _sub,
    "__sub__": _sub,
    "__rsub__": lambda self, other: _sub(other, self),
    "sub_": _in_place(_sub, "sub"),
    "__isub__": _in_place(_sub, "sub"),
    "mul": _mul,
    "multiply": _mul,
    "__mul__": _mul,
    "__rmul__": _mul,
    "mul_": _in_place(_mul, "mul"),
    "__imul__": _in_place(_mul, "mul"),
    "div": _div,
    "divide": _div,
    "true_divide": _div,
    "__truediv__": _div,
    "div_": _in_place(_div, "div"),
    "__itruediv__": _in_place(_div, "div"),
    "pow": _pow,
    "__pow__": _pow,
    "zero_": _zero_,
    "copy_": _copy_,
    "matmul": _products.matmul,
    "__matmul__": _products.matmul,
    "__rmatmul__": lambda self, other: _products.matmul(other, self),
    "mm": _products.mm,
    "spmm": _products.mm,
    "smm": _products.mm,
    "mv": _products.mv,
    "bmm": _products.bmm,
    "addmm": _products.addmm,
    "addmm_": _products.addmm_,
    "addmv": _products.addmv,
    "addmv_": _products.addmv_,
    "hspmm": _products.hspmm,
    "sspaddmm": _products.sspaddmm,
    "saddmm": _products.sspaddmm,
    "linear": _products.linear,
    "__neg__": lambda self: _map(taper.neg, "neg", self),
    "__abs__": lambda self: _map(taper.abs, "abs", self),
    "transpose": _transpose,
    "swapaxes": _transpose,
    "t": _t,
    "permute": _permute,
    "swapdims": _transpose,
    "clone": _clone,
    "unbind": _unbind,
    "__iter__": lambda self: iter(_unbind(self)),
    "__setitem__": _setitem,
    "view_as_real": _view_as_real,
    "view_as_complex": _view_as_complex,
    "sparse_resize_": _resize,
    "sparse_resize_and_clear_": _resize_and_clear,
    "resize_as_": resize_as,
    "is_same_size": _is_same_size,
    "floor_divide": _floor_divide,
    "__floordiv__": _floor_divide,
    "floor_divide_": _in_place(_floor_divide, "floor_divide"),
    "__ifloordiv__": _in_place(_floor_divide, "floor_divide"),
    "_sparse_broadcast_to": _broadcast_to,
    "expand": _broadcast_to,
    "broadcast_to": _broadcast_to,
    "expand_as": lambda self, other: _broadcast_to(self, other.shape),
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "select": _select,
    "select_copy": lambda self, dim, index: _select(self, dim, index).clone(),
    "narrow": _narrow,
    "index_select": _index_select,
    "__getitem__": _getitem,
    "cat": _cat,
    "concat": _cat,
    "stack": _stack,
    "sum": _sum,
    "norm": _norm,
    "any": _any,
    "zeros_like": _zeros_like,
    "empty_like": _empty_like,
    "new_zeros": _new_empty,
    "new_empty": _new_empty,
    "ones_like": _like("ones_like"),
    "full_like": _like("full_like"),
    "rand_like": _like("rand_like"),
    "randn_like": _like("randn_like"),
    "reshape": _reshape,
}
