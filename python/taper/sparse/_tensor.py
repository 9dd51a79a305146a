"""Sparse tensors: a list of places and the values there (COO), or the same of a matrix in the order of its rows or columns (CSR, CSC).

A Sparse is a tensor whose memory and history are those of its values, [nnz, *dense sizes], so that gradients, optimisers and copies work on what is
stored; beside it stand the places, [sparse dims, nnz], and the size of the whole. Operators reach __torch_function__, which finds what to do by
their name (_operators.py); what is not there raises as PyTorch does."""
from taper import _C
from taper._C import Size, Tensor
from taper.overrides import DisableTorchFunctionSubclass

_COMPRESSED = {_C.sparse_csr: 0, _C.sparse_csc: 1}  # the dim whose places a layout writes as where each row or column begins
_WORDS = {_C.sparse_coo: "Sparse", _C.sparse_csr: "SparseCsr", _C.sparse_csc: "SparseCsc"}


def plain(tensor):
    """The values as an ordinary tensor; gradients flow back through it."""
    with DisableTorchFunctionSubclass():
        return tensor.as_subclass(Tensor)


def coo(at, values, size, coalesced=False, layout=_C.sparse_coo):
    """The tensor with these values at these places; values become the tensor, so a leaf stays one only if nobody else holds it."""
    with DisableTorchFunctionSubclass():
        made = values.as_subclass(Sparse)
    made._at, made._size, made._coalesced, made._layout = at, Size(size), coalesced, layout
    return made


def entries(sparse):
    """(places, values) of a sparse tensor."""
    return sparse._at, plain(sparse)


def keys_of(at, size, without=None):
    """One number per place, in the order of the places; those that differ in the dim `without` alone share theirs."""
    keys = at.new_zeros(at.shape[1])
    for dim, row in enumerate(at):
        if dim != without:
            keys = keys * size[dim] + row
    return keys


def group_of(keys):
    """Which of the different keys each one is, and how many there are."""
    distinct, group = keys.unique(return_inverse=True)
    return group, distinct.shape[0]


def merged(at, values, size):
    """Places in order, each once, with the sums of their values."""
    import taper
    keys = keys_of(at, size)
    distinct, group = taper.unique(keys, return_inverse=True)
    rows = []
    rest = distinct
    for n in reversed(size[:at.shape[0]]):
        rows.append(rest % max(n, 1))
        rest = rest // max(n, 1)
    places = taper.stack(rows[::-1]) if rows else at[:, :distinct.shape[0]]
    if values.dtype == _C.bool:
        return places, values.new_zeros(distinct.shape[0], *values.shape[1:], dtype=taper.int32).index_add(0, group, values.int()).bool()
    return places, values.new_zeros(distinct.shape[0], *values.shape[1:]).index_add(0, group, values)


def _refusing(kind, text):
    def method(self, *args, **kwargs):
        raise kind(text)
    return method


class Sparse(Tensor):
    """See the file's head. Made by torch.sparse_coo_tensor and its kin, Tensor.to_sparse and operators."""
    _sparse_grad = True  # as a gradient it stands beside its tensor, where p.grad finds it (python/ext/autograd.c)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        from taper.sparse import _operators
        return _operators.run(func, args, kwargs or {})

    def _like(self, **parts):
        """The same with other values, places, size, order or layout."""
        at, values = entries(self)
        return coo(parts.get("at", at), parts.get("values", values), parts.get("size", self._size), parts.get("coalesced", self._coalesced), parts.get("layout", self._layout))

    # ---- What it is ----
    shape = property(lambda self: self._size)
    layout = property(lambda self: self._layout)
    is_sparse = property(lambda self: self._layout is _C.sparse_coo)
    is_sparse_csr = property(lambda self: self._layout is _C.sparse_csr)
    ndim = property(lambda self: len(self._size))
    T = property(lambda self: self.t())
    mT = property(lambda self: self.transpose(-2, -1))

    def size(self, dim=None):
        return self._size if dim is None else self._size[dim]

    def dim(self):
        return len(self._size)

    ndimension = dim

    def numel(self):
        return self._size.numel()

    nelement = numel

    def stride(self, dim=None):
        return (0,) * self.dim() if dim is None else 0

    def is_contiguous(self, memory_format=None):
        return False

    def __len__(self):
        return self._size[0]

    def sparse_dim(self):
        return self._at.shape[0]

    def dense_dim(self):
        return self.dim() - self._at.shape[0]

    def _nnz(self):
        return self._at.shape[1]

    def is_coalesced(self):
        return self._coalesced

    def type(self, dtype=None, non_blocking=False):
        return plain(self).type().replace("torch.", "torch.sparse.", 1) if dtype is None else self._like(values=plain(self).type(dtype))

    # ---- Its parts ----
    def _part(self, word, wanted, found):
        if self._layout not in wanted:
            raise RuntimeError(f"{word} expected sparse {'coordinate' if _C.sparse_coo in wanted else 'row compressed' if _C.sparse_csr in wanted else 'column compressed'} "
                               f"tensor layout but got {_WORDS[self._layout]}")
        if not self._coalesced:
            raise RuntimeError(f"Cannot get {word} on an uncoalesced tensor, please call .coalesce() first")
        return found()

    def indices(self):
        return self._part("indices", (_C.sparse_coo,), lambda: self._at)

    def values(self):
        return self._part("values", tuple(_WORDS), lambda: plain(self))

    def _indices(self):
        return self._at

    def _values(self):
        return plain(self)

    def _beginnings(self):
        """Where each row (CSR) or column (CSC) begins."""
        dim = _COMPRESSED[self._layout]
        counts = self._at[dim].bincount(minlength=self._size[dim])
        return _C._functions["cat"]([counts.new_zeros(1), counts.cumsum(0)])

    def crow_indices(self):
        return self._part("crow_indices", (_C.sparse_csr,), self._beginnings)

    def col_indices(self):
        return self._part("col_indices", (_C.sparse_csr,), lambda: self._at[1])

    def ccol_indices(self):
        return self._part("ccol_indices", (_C.sparse_csc,), self._beginnings)

    def row_indices(self):
        return self._part("row_indices", (_C.sparse_csc,), lambda: self._at[0])

    # ---- Other forms ----
    def coalesce(self):
        """Places in order, each once."""
        if self._layout is not _C.sparse_coo:
            raise RuntimeError(f"coalesce expected sparse coordinate tensor layout but got {_WORDS[self._layout]}")
        if self._coalesced:
            return self
        return coo(*merged(*entries(self), self._size), self._size, True)

    def to_dense(self, dtype=None, *, masked_grad=True):
        at, values = entries(self)
        whole = values.new_zeros(self._size)
        made = whole + values.sum(0) if at.shape[0] == 0 else whole.to(values.dtype).index_put(tuple(at), values, accumulate=values.dtype != _C.bool)
        return made if dtype is None else made.to(dtype)

    def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
        if isinstance(sparse_dim, int) and sparse_dim != self.sparse_dim():
            return self.to_dense().to_sparse(sparse_dim)
        layout = layout or _C.sparse_coo
        if layout is self._layout:
            return self
        if layout is _C.strided:
            return self.to_dense()
        at, values = entries(self if self._layout is not _C.sparse_coo else self.coalesce())
        turned = layout is _C.sparse_csc
        if turned is not (self._layout is _C.sparse_csc):  # from the order of rows to that of columns, or back
            order = keys_of(at.flip(0) if turned else at, self._size[::-1] if turned else self._size).argsort(stable=True)
            at, values = at[:, order], values[order]
        return coo(at, values, self._size, True, layout)

    def to_sparse_coo(self):
        return self.to_sparse()

    def to_sparse_csr(self, dense_dim=None):
        return self.to_sparse(layout=_C.sparse_csr)

    def to_sparse_csc(self, dense_dim=None):
        return self.to_sparse(layout=_C.sparse_csc)

    def sparse_mask(self, mask):
        return self.to_dense().sparse_mask(mask)

    def detach(self):
        return self._like(values=plain(self).detach())

    # ---- What reads memory ----
    storage = untyped_storage = _typed_storage = _refusing(NotImplementedError, "Cannot access storage of SparseTensorImpl")
    data_ptr = tolist = _refusing(RuntimeError, "Cannot access data pointer of Tensor that doesn't have storage")
    numpy = __array__ = __dlpack__ = _refusing(TypeError, "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def item(self):
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return self.to_dense().item()

    # ---- The tape, pickles, texts ----
    @property
    def grad(self):
        raw = Tensor.grad.__get__(self)
        return None if raw is None else self._like(values=plain(raw))

    @grad.setter
    def grad(self, value):
        Tensor.grad.__set__(self, plain(value) if isinstance(value, Sparse) else value)

    data = property(detach)

    def __reduce_ex__(self, protocol):
        from taper._utils import _rebuild_sparse_tensor
        if self._layout is _C.sparse_coo:
            parts = self._at, plain(self).detach(), self._size, self._coalesced
        else:
            parts = self._beginnings(), self._at[1 - _COMPRESSED[self._layout]], plain(self).detach(), self._size
        return _rebuild_sparse_tensor, (self._layout, parts)

    def __deepcopy__(self, memo):
        return self._like(at=self._at.clone(), values=plain(self).detach().clone()).requires_grad_(self.requires_grad)

    def __repr__(self, *, tensor_contents=None):
        values = plain(self)
        if self._layout is _C.sparse_coo:
            parts = {"indices": self._at}
        else:
            beginnings, others = ("crow_indices", "col_indices") if self._layout is _C.sparse_csr else ("ccol_indices", "row_indices")
            parts = {beginnings: self._beginnings(), others: self._at[1 - _COMPRESSED[self._layout]]}
        parts["values"] = values.detach()
        lines = [f"{name}={_text(part, len(name) + 8)}" for name, part in parts.items()]
        tail = [f"size={tuple(self._size)}", f"nnz={self._nnz()}"]
        if values.device.type != "cpu":
            tail.insert(0, f"device='{values.device}'")
        if values.numel() and values.dtype not in (_C.float32, _C.int64, _C.bool, _C.complex64):
            tail.append(f"dtype={values.dtype}")
        tail.append(f"layout={self._layout}")
        if values.grad_fn is not None and not self.is_leaf:
            tail.append(f"grad_fn=<{values.grad_fn.name()}>")
        elif self.requires_grad:
            tail.append("requires_grad=True")
        if self._layout is _C.sparse_coo:
            return "tensor(" + ",\n       ".join([*lines, ", ".join(tail)]) + ")"
        last = ", ".join([lines[-1], *tail[:2]])
        rest = ", ".join(tail[2:])
        wide = len(last.splitlines()[-1]) + 7 * (len(last.splitlines()) == 1) + len(rest) + 3 > 80
        return "tensor(" + ",\n       ".join([*lines[:-1], last]) + (",\n       " if wide else ", ") + rest + ")"

    __str__ = __repr__


def _text(part, indent):
    """A part as it stands inside of the text: without its dtype, lines moved right."""
    import re
    if part.numel() == 0:
        return f"tensor([], size={tuple(part.shape)})".replace(",)", ",)")
    text = re.sub(r",\s+(dtype|device)=[^,)]*", "", repr(part.detach()))
    return text.replace("\n", "\n" + " " * indent)


def _checked(indices, values, size):
    if indices.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    if indices.shape[1] != (values.shape[0] if values.dim() else 1):
        raise RuntimeError(f"indices and values must have same nnz, but got nnz from indices: {indices.shape[1]}, nnz from values: {values.shape[0]}")
    if size is not None and len(size) != indices.shape[0] + values.dim() - 1:
        raise RuntimeError(f"number of dimensions must be sparse_dim ({indices.shape[0]}) + dense_dim ({values.dim() - 1}), but got {len(size)}")


def sparse_coo_tensor(indices=None, values=None, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False, check_invariants=None, is_coalesced=None,
                      layout=None):
    """A tensor with values at the places that the columns of indices name; the values of a place that stands twice add up."""
    import taper
    if values is None and indices is not None and size is None:
        indices, size = None, indices  # torch.sparse_coo_tensor((2, 3))
    if indices is None:
        indices, values = taper.zeros(len(size), 0, dtype=taper.int64), taper.zeros(0)
        is_coalesced = is_coalesced if is_coalesced is not None else False
    held = isinstance(values, Tensor)
    values = taper.as_tensor(values, dtype=dtype, device=device)
    indices = taper.as_tensor(indices, device=values.device).to(taper.int64)
    _checked(indices, values, size)
    if size is None:
        size = [*((indices.amax(1) + 1).tolist() if indices.numel() else [0] * indices.shape[0]), *values.shape[1:]]
    if requires_grad:
        values = values.detach()
    values = values.view_as(values) if held else values
    made = coo(indices, values, size, bool(is_coalesced))
    return made.requires_grad_() if requires_grad else made


def _compressed(beginnings, others, values, size, dtype, device, requires_grad, layout):
    import taper
    values = taper.as_tensor(values, dtype=dtype, device=device)
    beginnings, others = taper.as_tensor(beginnings, device=values.device).to(taper.int64), taper.as_tensor(others, device=values.device).to(taper.int64)
    along = taper.arange(beginnings.shape[0] - 1, device=values.device).repeat_interleave(beginnings.diff())
    _checked(others.unsqueeze(0), values, None)
    at = taper.stack([along, others] if layout is _C.sparse_csr else [others, along])
    if size is None:
        size = [beginnings.shape[0] - 1, int(others.max()) + 1 if others.numel() else 0]
        size = size if layout is _C.sparse_csr else size[::-1]
    if requires_grad:
        values = values.detach()
    made = coo(at, values.view_as(values), size, True, layout)
    return made.requires_grad_() if requires_grad else made


def sparse_csr_tensor(crow_indices, col_indices, values, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False, check_invariants=None):
    """A matrix whose row i has the columns and values from crow_indices[i] to crow_indices[i + 1]."""
    return _compressed(crow_indices, col_indices, values, size, dtype, device, requires_grad, _C.sparse_csr)


def sparse_csc_tensor(ccol_indices, row_indices, values, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False, check_invariants=None):
    """A matrix whose column i has the rows and values from ccol_indices[i] to ccol_indices[i + 1]."""
    return _compressed(ccol_indices, row_indices, values, size, dtype, device, requires_grad, _C.sparse_csc)


def sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
                             check_invariants=None):
    """sparse_csr_tensor or sparse_csc_tensor, by the layout."""
    if layout not in _COMPRESSED:
        raise RuntimeError(f"sparse_compressed_tensor expected sparse compressed tensor layout but got {layout}")
    return _compressed(compressed_indices, plain_indices, values, size, dtype, device, requires_grad, layout)


def from_dense(tensor, sparse_dim=None, layout=None):
    """The elements of a dense tensor that are not zero; a place is left out where all of its dense dims are."""
    count = tensor.dim() if sparse_dim is None else sparse_dim
    stored = (tensor != 0).flatten(count).any(-1) if count < tensor.dim() else tensor != 0
    at = stored.nonzero().t().contiguous()
    values = tensor[tuple(at)] if count else tensor.unsqueeze(0)
    made = coo(at, values, tensor.shape, True)
    return made if layout in (None, _C.sparse_coo) else made.to_sparse(layout=layout)
