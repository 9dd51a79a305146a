"""Sparse tensors: a list of places and the values there (COO), or a matrix row by row or column by column (CSR, CSC),
or the same of its blocks (BSR, BSC).

A Sparse is a tensor whose memory and history are those of its values, so that gradients, optimisers and copies work on
what is stored. Beside it stand

    COO          _at [sparse dims, nnz]; values are [nnz, *dense]
    compressed   _compressed [*batch, lines + 1], where each row or column begins, and _plain [*batch, nnz], its columns
    or rows;
                 values are [*batch, nnz, *block, *dense]

and the size of the whole. Operators reach __torch_function__, which finds what to do by their name (_operators.py);
what is not there raises as PyTorch does. _layouts.py converts between layouts, _make.py has the constructors and their
checks."""

from taper import _C
from taper._C import Size, Tensor
from taper.overrides import DisableTorchFunctionSubclass
from taper.sparse import _kernels

ROWS = (_C.sparse_csr, _C.sparse_bsr)
COLUMNS = (_C.sparse_csc, _C.sparse_bsc)
BLOCKS = (_C.sparse_bsr, _C.sparse_bsc)
WORDS = {
    _C.strided: "Strided",
    _C.sparse_coo: "Sparse",
    _C.sparse_csr: "SparseCsr",
    _C.sparse_csc: "SparseCsc",
    _C.sparse_bsr: "SparseBsr",
    _C.sparse_bsc: "SparseBsc",
}


def plain(tensor):
    """The values as an ordinary tensor; gradients flow back through it."""
    with DisableTorchFunctionSubclass():
        return tensor.as_subclass(Tensor)


def _wrap(values, size, layout, **parts):
    with DisableTorchFunctionSubclass():
        made = values.as_subclass(Sparse)
    made.__dict__.update(parts, _size=Size(size), _layout=layout)
    return made


def coo(at, values, size, coalesced=False):
    """The tensor with these values at these places; values become the tensor, so a leaf stays one only if nobody else
    holds it."""
    return _wrap(values, size, _C.sparse_coo, _at=at, _coalesced=coalesced)


def compressed(first, others, values, size, layout):
    """The tensor whose line i has the values from first[i] to first[i + 1], which stand at `others` in the line."""
    return _wrap(values, size, layout, _compressed=first, _plain=others, _coalesced=True)


def entries(sparse):
    """(places, values) of the elements that are stored, whatever the layout: places of a batch begin with it, blocks
    are taken apart."""
    if sparse._layout is _C.sparse_coo:
        return sparse._at, plain(sparse)
    at, values, _ = sparse._blocks()
    if sparse._layout not in BLOCKS:
        return at, values
    from taper import arange, stack

    n, (high, wide) = at.shape[1], sparse._blocksize()
    rows = (
        (at[-2].view(n, 1, 1) * high + arange(high, device=at.device).view(1, high, 1))
        .expand(n, high, wide)
        .reshape(-1)
    )
    columns = (at[-1].view(n, 1, 1) * wide + arange(wide, device=at.device)).expand(n, high, wide).reshape(-1)
    return stack([*(batch.repeat_interleave(high * wide) for batch in at[:-2]), rows, columns]), values.flatten(0, 2)


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
    places, begins, order = _kernels.coalesce(at, list(size[: at.shape[0]]))
    rows = values.reshape(values.shape[0], Size(values.shape[1:]).numel())
    if values.dtype == _C.bool:
        sums = _kernels.mm_rows(begins, order, None, rows.to(_C.int32)) != 0
    else:
        sums = _kernels.mm_rows(begins, order, None, rows)
    return places, sums.view(places.shape[1], *values.shape[1:])


def _refusing(kind, text):
    def method(self, *args, **kwargs):
        raise kind(text)

    return method


class Sparse(Tensor):
    """See the file's head. Made by torch.sparse_coo_tensor and its kin, Tensor.to_sparse and operators."""

    @staticmethod
    def _sparse_grad():
        """As a gradient it stands beside its tensor, where p.grad finds it (python/ext/autograd.c, which calls this):
        optimisers look for such gradients from then on."""
        from taper.optim.optimizer import _sparse_gradients

        if not _sparse_gradients:
            _sparse_gradients.append(True)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        from taper.sparse import _operators

        return _operators.run(func, args, kwargs or {})

    def _like(self, **parts):
        """The same with other values, places, size or order."""
        values = parts.get("values")
        values = plain(self) if values is None else values
        size = parts.get("size", self._size)
        if self._layout is _C.sparse_coo:
            return coo(parts.get("at", self._at), values, size, parts.get("coalesced", self._coalesced))
        return compressed(
            parts.get("first", self._compressed), parts.get("others", self._plain), values, size, self._layout
        )

    def _batch(self):
        """The sizes of a compressed tensor's batch dims."""
        return self._plain.shape[:-1]

    def _blocksize(self):
        batch = len(self._batch())
        return tuple(plain(self).shape[batch + 1 : batch + 3]) if self._layout in BLOCKS else ()

    def _blocks(self):
        """Of a compressed tensor: places of its elements or blocks, [batch dims + 2, count], what stands there, and
        [*batch, rows, columns] of such places."""
        batch, block, values = self._batch(), self._blocksize() or (1, 1), plain(self)
        at = _kernels.csr_to_coo(self._compressed, self._plain, transpose=self._layout in COLUMNS)
        dims = len(batch)
        return (
            at,
            values.reshape(at.shape[1], *values.shape[dims + 1 :]),
            [*batch, self._size[dims] // block[0], self._size[dims + 1] // block[1]],
        )

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
        if self._layout is not _C.sparse_coo:
            raise RuntimeError("Sparse CSR tensors do not have strides")
        return (0,) * self.dim() if dim is None else 0

    def is_contiguous(self, memory_format=None):
        if self._layout is not _C.sparse_coo:
            raise RuntimeError("Sparse CSR tensors do not have is_contiguous")
        return False

    def __len__(self):
        return self._size[0]

    def sparse_dim(self):
        return self._at.shape[0] if self._layout is _C.sparse_coo else 2

    def dense_dim(self):
        if self._layout is _C.sparse_coo:
            return self.dim() - self._at.shape[0]
        return plain(self).dim() - self._plain.dim() - 2 * (self._layout in BLOCKS)

    def _dimV(self):
        return self.dense_dim()

    def _dimI(self):
        return self.sparse_dim()

    def _nnz(self):
        return self._at.shape[1] if self._layout is _C.sparse_coo else self._plain.shape[-1]

    def is_coalesced(self):
        self._expects("is_coalesced", (_C.sparse_coo,))
        return self._coalesced

    def _coalesced_(self, coalesced):
        self._coalesced = coalesced
        return self

    def type(self, dtype=None, non_blocking=False):
        return (
            plain(self).type().replace("torch.", "torch.sparse.", 1)
            if dtype is None
            else self._like(values=plain(self).type(dtype))
        )

    # ---- Its parts ----
    def _expects(self, word, wanted):
        if self._layout not in wanted:
            kind = (
                "coordinate"
                if _C.sparse_coo in wanted
                else "row compressed"
                if _C.sparse_csr in wanted
                else "column compressed"
            )
            raise RuntimeError(f"{word} expected sparse {kind} tensor layout but got {WORDS[self._layout]}")

    def _part(self, word):
        if not self._coalesced:
            raise RuntimeError(f"Cannot get {word} on an uncoalesced tensor, please call .coalesce() first")

    def indices(self):
        self._expects("indices", (_C.sparse_coo,))
        self._part("indices")
        return self._at

    def values(self):
        self._part("values")
        return plain(self)

    def _indices(self):
        if self._layout is not _C.sparse_coo:
            from taper.sparse._operators import refuse

            refuse("_indices", self)
        return self._at

    def _values(self):
        if self._layout is not _C.sparse_coo:
            from taper.sparse._operators import refuse

            refuse("_values", self)
        return plain(self)

    def crow_indices(self):
        self._expects("crow_indices", ROWS)
        return self._compressed

    def col_indices(self):
        self._expects("col_indices", ROWS)
        return self._plain

    def ccol_indices(self):
        self._expects("ccol_indices", COLUMNS)
        return self._compressed

    def row_indices(self):
        self._expects("row_indices", COLUMNS)
        return self._plain

    # ---- Other forms ----
    def coalesce(self):
        """Places in order, each once."""
        self._expects("coalesce", (_C.sparse_coo,))
        if self._coalesced:
            return self
        return coo(*merged(*entries(self), self._size), self._size, True)

    def to_dense(self, dtype=None, *, masked_grad=True):
        if dtype is not None and self._layout is not _C.sparse_coo:
            raise RuntimeError("dtype argument is not supported by sparse_csr_to_dense")
        if self.is_meta:
            return plain(self).new_zeros(self._size, dtype=dtype)
        at, values = entries(self)
        whole = values.new_zeros(self._size)
        if at.shape[0] == 0:
            made = whole + values.sum(0, dtype=values.dtype)
        else:
            made = whole.index_put(tuple(at), values, accumulate=values.dtype != _C.bool)
        return made if dtype is None else made.to(dtype)

    def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
        from taper.sparse._layouts import convert

        return convert(self, sparse_dim, layout, blocksize, dense_dim)

    def _to_layout(self, layout, blocksize=None, dense_dim=None):
        from taper.sparse._layouts import convert

        came = "coo" if self._layout is _C.sparse_coo else "sparse_compressed"
        return convert(
            self,
            None,
            layout,
            blocksize,
            dense_dim,
            f"{came}_to_{str(layout)[6:]}" if layout is not self._layout else None,
        )

    def to_sparse_coo(self):
        return self.to_sparse()

    def to_sparse_csr(self, dense_dim=None):
        return self._to_layout(_C.sparse_csr, None, dense_dim)

    def to_sparse_csc(self, dense_dim=None):
        return self._to_layout(_C.sparse_csc, None, dense_dim)

    def to_sparse_bsr(self, blocksize, dense_dim=None):
        return self._to_layout(_C.sparse_bsr, blocksize, dense_dim)

    def to_sparse_bsc(self, blocksize, dense_dim=None):
        return self._to_layout(_C.sparse_bsc, blocksize, dense_dim)

    def new(self, *args, **kwargs):
        from taper.sparse._operators import new

        return new(self, *args)

    def resize_(self, *size, memory_format=None):
        from taper.sparse._operators import resize_compressed

        return resize_compressed(self, *size)

    def sparse_mask(self, mask):
        from taper.sparse._products import mask_sparse

        return mask_sparse(self, mask)

    def detach(self):
        return self._like(values=plain(self).detach())

    # ---- What reads memory ----
    storage = untyped_storage = _typed_storage = _refusing(
        NotImplementedError, "Cannot access storage of SparseTensorImpl"
    )
    data_ptr = tolist = _refusing(RuntimeError, "Cannot access data pointer of Tensor that doesn't have storage")
    numpy = __array__ = __dlpack__ = _refusing(
        TypeError, "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first."
    )

    def item(self):
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return self.to_dense().item()

    # ---- The tape, pickles, texts ----
    @property
    def grad(self):
        raw = Tensor.grad.__get__(self)
        return None if raw is None else self._grad_in_form(raw)

    def _grad_in_form(self, raw):
        """The tape's gradient, of the values, as one of the whole."""
        return self._like(values=plain(raw))

    @grad.setter
    def grad(self, value):
        Tensor.grad.__set__(self, plain(value) if isinstance(value, Sparse) else value)

    data = property(detach)

    def __reduce_ex__(self, protocol):
        from taper._utils import _rebuild_sparse_tensor

        if self._layout is _C.sparse_coo:
            parts = self._at, plain(self).detach(), self._size, self._coalesced
        else:
            parts = self._compressed, self._plain, plain(self).detach(), self._size
        return _rebuild_sparse_tensor, (self._layout, parts)

    def _copy(self):
        """The same with memory of its own; gradients flow back."""
        if self._layout is _C.sparse_coo:
            return self._like(at=self._at.clone(), values=plain(self).clone())
        return self._like(first=self._compressed.clone(), others=self._plain.clone(), values=plain(self).clone())

    def __deepcopy__(self, memo):
        return self.detach()._copy().requires_grad_(self.requires_grad)

    def __repr__(self, *, tensor_contents=None):
        from taper.sparse._text import text

        return text(self)

    __str__ = __repr__
