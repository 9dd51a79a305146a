"""What operators do with sparse tensors, by the operator's name. A name that is not here raises PyTorch's error."""
import taper
from taper import _C
from taper.overrides import DisableTorchFunctionSubclass
from taper.sparse import _products
from taper.sparse._tensor import Sparse, coo, entries, plain

# Of the values alone: dtype, device, history, hooks.
_AS_VALUES = frozenset("""__get__ __set__ is_floating_point is_complex is_signed register_hook retain_grad get_device is_inference element_size
    register_post_accumulate_grad_hook __hash__ _is_view is_pinned is_shared""".split())
# Element by element with f(0) = 0: on values, which must be whole sums unless f is linear.
_LINEAR = frozenset("neg neg_ negative positive clone contiguous real imag conj".split())
_MAPS = frozenset("""abs absolute sqrt square sin tan asin atan sinh tanh asinh atanh arcsin arctan arcsinh arctanh sign sgn relu relu_ floor ceil trunc round expm1 log1p erf
    erfinv deg2rad rad2deg frac nan_to_num isnan isinf isposinf isneginf signbit angle abs_ sqrt_ sin_ tan_ tanh_ floor_ ceil_ trunc_ round_ expm1_ log1p_ erf_ sign_ square_
    threshold leaky_relu""".split())
_CASTS = frozenset("to float double half bfloat16 int long short char byte bool cpu cuda xpu type_as cfloat cdouble pin_memory requires_grad_".split())


def run(func, args, kwargs):
    """A call with a sparse tensor among its arguments."""
    name = func.__name__
    if name in _AS_VALUES or name == "backward":
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if name in _CASTS:
        return _cast(func, name, args, kwargs)
    if name in _LINEAR or name in _MAPS:
        return _map(func, name, *args, **kwargs)
    found = _BY_NAME.get(name)
    if found is None:
        sparse = next((a for a in args if isinstance(a, Sparse)), None)
        word = "SparseCsr" if sparse is not None and sparse.layout is not _C.sparse_coo else "Sparse"
        device = "CPU" if sparse is None or sparse.device.type == "cpu" else sparse.device.type.upper()
        raise NotImplementedError(f"Could not run 'aten::{name.strip('_')}' with arguments from the '{word}{device}' backend. This could be because the operator doesn't "
                                  "exist for this backend; Tensor.to_dense() gives a tensor that has it.")
    return found(*args, **kwargs)


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
    at = self._at if self._at.device == values.device else self._at.to(values.device)
    return self._like(at=at, values=values)


def _map(func, name, self, *args, **kwargs):
    if name.endswith("_"):
        with DisableTorchFunctionSubclass():
            func(self, *args, **kwargs)
        return self
    made = self.coalesce() if name in _MAPS and self.layout is _C.sparse_coo else self
    return made._like(values=func(plain(made), *args, **kwargs))


def _number(x):
    """Is it a number, or a tensor that holds one?"""
    return not isinstance(x, _C.Tensor) or (not isinstance(x, Sparse) and x.dim() == 0)


def _same_size(name, a, b):
    if a.shape != b.shape:
        raise RuntimeError(f"{name}: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != {list(b.shape)}")


# ---- Sums ----
def _add(self, other, *, alpha=1):
    if not isinstance(other, Sparse):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if not isinstance(self, Sparse):
        return self + alpha * other.to_dense()
    _same_size("add", self, other)
    (at, values), (other_at, other_values) = entries(self), entries(other)
    made = coo(taper.cat([at, other_at], 1), taper.cat([values, other_values if alpha == 1 else alpha * other_values]), self.shape)
    if self.layout is not _C.sparse_coo:
        return made.to_sparse(layout=self.layout)
    return made.coalesce() if self.is_coalesced() and other.is_coalesced() else made


_WORDS = dict(zip("bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split(),
                  "Bool Byte Char Short Int Long Half BFloat16 Float Double ComplexFloat ComplexDouble".split()))


def _word(dtype):
    """What PyTorch's messages call a dtype."""
    return _WORDS.get(str(dtype).rpartition(".")[2], str(dtype))


def _become(self, made, name="add"):
    """In place: self takes another's places and values, and keeps its dtype."""
    values = plain(made).detach()
    if not _C.can_cast(values.dtype, self.dtype):
        raise RuntimeError(f"Can't convert result type {_word(values.dtype)} to output {_word(self.dtype)} in {name} operation")
    _C.Tensor.data.__set__(self, values.to(self.dtype))
    self._at, self._coalesced = made._at, made._coalesced
    return self


def _sub(self, other, *, alpha=1):
    if isinstance(self, Sparse) and not isinstance(other, Sparse):
        raise RuntimeError("sub(sparse, dense) is not supported. Use sub(dense, sparse) instead.")
    return _add(self, other, alpha=-alpha)


# ---- Products element by element ----
def _mul(self, other):
    if not isinstance(self, Sparse):
        self, other = other, self
    if _number(other):
        return self._like(values=plain(self) * other)
    if isinstance(other, Sparse):
        _same_size("mul", self, other)
        made = _products.mul_sparse(self.to_sparse(), other.to_sparse())
        return made if self.layout is _C.sparse_coo else made.to_sparse(layout=self.layout)
    return self._like(values=plain(self) * _products.at_places(other, self))


def _div(self, other, *, rounding_mode=None):
    if not isinstance(self, Sparse) or isinstance(other, Sparse) or not _number(other):
        raise RuntimeError("Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
                           f"{list(getattr(other, 'shape', []))} for divisor)")
    made = self if rounding_mode is None else self.coalesce()
    return made._like(values=plain(made).div(other, rounding_mode=rounding_mode))


def _pow(self, exponent):
    made = self.coalesce() if self.layout is _C.sparse_coo else self
    return made._like(values=plain(made) ** exponent)


def _in_place(operator, name):
    """The operator in place; a dense self stays dense, whatever a sparse other one is."""
    def write(self, other, **kwargs):
        if isinstance(self, Sparse):
            return _become(self, operator(self, other, **kwargs), name)
        return getattr(self, name + "_")(other.to_dense(), **kwargs)
    return write


def _zero_(self):
    at, values = entries(self)
    return _become(self, coo(at[:, :0], values.detach()[:0], self.shape, self.is_coalesced(), self.layout))


def _copy_(self, src, non_blocking=False):
    if not isinstance(self, Sparse):
        return self.copy_(src.to_dense())
    if not isinstance(src, Sparse):
        raise RuntimeError("copy_() between dense and sparse Tensors is not implemented! Found self type = " f"{self.type()} and src type = {src.type()}")
    return _become(self, src._like(values=plain(src).to(self.dtype).clone()))


# ---- Shapes ----
def _transpose(self, dim0, dim1):
    dim0, dim1 = dim0 % self.dim(), dim1 % self.dim()
    if dim0 == dim1:
        return self
    count = self.sparse_dim()
    size = list(self.shape)
    size[dim0], size[dim1] = size[dim1], size[dim0]
    if dim0 >= count and dim1 >= count:
        return self._like(values=plain(self).transpose(dim0 - count + 1, dim1 - count + 1), size=size)
    if dim0 >= count or dim1 >= count:
        raise RuntimeError("transpose: can't transpose sparse and dense dimensions")
    order = list(range(count))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    turned = {_C.sparse_csr: _C.sparse_csc, _C.sparse_csc: _C.sparse_csr}.get(self.layout, self.layout)
    return self._like(at=self._at[order], size=size, coalesced=self.layout is not _C.sparse_coo, layout=turned)


def _t(self):
    if self.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {self.sparse_dim()} sparse and {self.dense_dim()} dense dimensions")
    return self if self.dim() < 2 else _transpose(self, 0, 1)


def _permute(self, *dims):
    dims = [d % self.dim() for d in (dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims)]
    count = self.sparse_dim()
    if sorted(dims[:count]) != list(range(count)):
        raise RuntimeError("permute: can't move sparse dimensions among dense ones")
    values = plain(self)
    if self.dense_dim():
        values = values.permute(0, *(d - count + 1 for d in dims[count:]))
    return self._like(at=self._at[dims[:count]], values=values, size=[self.shape[d] for d in dims], coalesced=dims[:count] == list(range(count)) and self.is_coalesced())


def _unsqueeze(self, dim):
    dim %= self.dim() + 1
    size = [*self.shape[:dim], 1, *self.shape[dim:]]
    at, count = self._at, self.sparse_dim()
    if dim > count:
        return self._like(values=plain(self).unsqueeze(dim - count + 1), size=size)
    return self._like(at=taper.cat([at[:dim], taper.zeros_like(at[:1]) if count else at.new_zeros(1, self._nnz()), at[dim:]]), size=size)


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
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(self.shape)} at dimension {dim}")
    index %= n
    size = [*self.shape[:dim], *self.shape[dim + 1:]]
    if dim >= count:
        return self._like(values=plain(self).select(dim - count + 1, index), size=size)
    kept = self._at[dim] == index
    if count == 1:
        return plain(self)[kept].sum(0)
    return self._like(at=taper.cat([self._at[:dim, kept], self._at[dim + 1:, kept]]), values=plain(self)[kept], size=size)


def _narrow(self, dim, start, length):
    dim %= self.dim()
    count = self.sparse_dim()
    size = [*self.shape[:dim], length, *self.shape[dim + 1:]]
    if dim >= count:
        return self._like(values=plain(self).narrow(dim - count + 1, start, length), size=size)
    row = self._at[dim]
    return _keep(self, dim, (row >= start) & (row < start + length), start, size)


def _index_select(self, dim, index):
    """Rows of a dim in the order of index: each stored element goes to all places that ask for its row."""
    dim %= self.dim()
    count = self.sparse_dim()
    size = [*self.shape[:dim], index.shape[0], *self.shape[dim + 1:]]
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
        keys[at:at + 1] = [slice(None)] * (self.dim() - len(keys) + 1)
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
    return coo(taper.cat(list(_shifted(tensors, dim)), 1), taper.cat([plain(t) for t in tensors]), size, dim == 0 and all(t.is_coalesced() for t in tensors))


def _stack(tensors, dim=0):
    return _cat([_unsqueeze(t, dim) for t in tensors], dim)


# ---- Reductions ----
def _sum(self, dim=None, keepdim=False, *, dtype=None):
    if dim is None or dim == ():
        return plain(self).sum(dtype=dtype)
    return _products.sum_dims(self, dim, keepdim, dtype)


def _norm(self, p="fro", dim=None, keepdim=False, dtype=None):
    return plain(self.coalesce()).norm(p=p)


def _any(self):
    return plain(self).any()


# ---- Makers ----
def _empty(self, *size):
    size = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    return coo(self._at.new_zeros(len(size), 0), plain(self).detach().new_zeros(0), size)


def _zeros_like(self, **kwargs):
    if kwargs.pop("layout", None) is _C.strided:
        return plain(self).new_zeros(self.shape, **{k: v for k, v in kwargs.items() if v is not None})
    device, dtype = kwargs.get("device") or self.device, kwargs.get("dtype") or self.dtype
    return coo(self._at[:, :0].to(device), plain(self).detach()[:0].to(device, dtype), self.shape, self.is_coalesced(), self.layout)


def _reshape(self, *shape):
    raise RuntimeError("reshape is not implemented for sparse tensors")


_BY_NAME = {
    "add": _add, "__add__": _add, "__radd__": lambda self, other: _add(other, self), "add_": _in_place(_add, "add"), "__iadd__": _in_place(_add, "add"), "sub": _sub, "subtract": _sub, "__sub__": _sub,
    "__rsub__": lambda self, other: _sub(other, self), "sub_": _in_place(_sub, "sub"), "__isub__": _in_place(_sub, "sub"), "mul": _mul, "multiply": _mul, "__mul__": _mul, "__rmul__": _mul,
    "mul_": _in_place(_mul, "mul"), "__imul__": _in_place(_mul, "mul"), "div": _div, "divide": _div, "true_divide": _div, "__truediv__": _div, "div_": _in_place(_div, "div"),
    "__itruediv__": _in_place(_div, "div"), "pow": _pow, "__pow__": _pow, "zero_": _zero_, "copy_": _copy_, "matmul": _products.matmul, "__matmul__": _products.matmul,
    "__rmatmul__": lambda self, other: _products.matmul(other, self), "mm": _products.mm, "spmm": _products.mm, "smm": _products.mm, "mv": _products.mv, "bmm": _products.bmm,
    "addmm": _products.addmm, "linear": _products.linear, "__neg__": lambda self: _map(taper.neg, "neg", self), "__abs__": lambda self: _map(taper.abs, "abs", self),
    "transpose": _transpose, "swapaxes": _transpose, "t": _t, "permute": _permute, "unsqueeze": _unsqueeze, "squeeze": _squeeze, "select": _select, "narrow": _narrow,
    "index_select": _index_select, "__getitem__": _getitem, "cat": _cat, "concat": _cat, "stack": _stack, "sum": _sum, "norm": _norm, "any": _any, "zeros_like": _zeros_like,
    "empty_like": _zeros_like, "new_zeros": _empty, "new_empty": _empty, "reshape": _reshape}
