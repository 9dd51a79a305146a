"""Products and sums of sparse tensors: over places and values, with operators that have gradients."""

import taper
from taper import _C
from taper._C import _functions as _op
from taper.sparse import _kernels
from taper.sparse._layouts import at_places, mask_dense, pack
from taper.sparse._tensor import WORDS, Sparse, compressed, coo, entries, keys_of, plain


def _times_dense(sparse, dense):
    """sparse @ dense: row by row where the elements are in that order, place by place where they are not."""
    values = plain(sparse)
    dtype = taper.promote_types(values.dtype, dense.dtype)
    dense = dense.to(dtype)
    if sparse.layout is _C.sparse_csr and not sparse._batch():
        return _kernels.mm_rows(sparse._compressed, sparse._plain, values.to(dtype), dense)
    at, values = entries(sparse)
    if sparse.layout is _C.sparse_coo and sparse.is_coalesced():
        first = _kernels.coo_to_csr(at[0], sparse.shape[0])
        return _kernels.mm_rows(first, at[1], values.to(dtype), dense)
    return _kernels.mm_coo(at, values.to(dtype), dense, sparse.shape[0])


def _by_rows(sparse):
    """(where each row begins, columns, values) of a matrix, with the columns of a row in order."""
    if sparse.layout is _C.sparse_csr and not sparse._batch():
        return sparse._compressed, sparse._plain, plain(sparse)
    at, values = entries(sparse.to_sparse().coalesce())
    return _kernels.coo_to_csr(at[0], sparse.shape[0]), at[1], values


def _check(a, b, what="mm"):
    if a.shape[-1] != b.shape[0]:
        raise RuntimeError(
            f"{what}: mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[-1]} and "
            f"{'x'.join(map(str, b.shape))})"
        )


def mm(a, b):
    """a @ b for matrices of which one or both may be sparse."""
    if not isinstance(a, Sparse) and not isinstance(b, Sparse):
        return _op["mm"](a, b)
    _check(a, b)
    if a.is_meta:
        return (
            a.new_empty(a.shape[0], b.shape[1])
            if isinstance(b, Sparse) and isinstance(a, Sparse)
            else taper.empty(a.shape[0], b.shape[1], dtype=a.dtype, device="meta")
        )
    if not isinstance(a, Sparse):
        return mm(b.t(), a.t()).t()
    if isinstance(b, Sparse):
        return _both_sparse(a, b).to_sparse(layout=a.layout)
    return _times_dense(a, b)


spmm = dsmm = hsmm = smm = mm  # its older names


def _both_sparse(a, b):
    """The product of two sparse matrices: its places first, then the sums there."""
    first, columns, values = _by_rows(a)
    other_first, other_columns, others = _by_rows(b)
    dtype = taper.promote_types(values.dtype, others.dtype)
    made_first, made = _kernels.mm_pattern(first, columns, other_first, other_columns, b.shape[1])
    sums = _kernels.mm_sampled(
        made_first, made, first, columns, values.to(dtype), other_first, other_columns, others.to(dtype), b.shape[1]
    )
    return compressed(made_first, made, sums, (a.shape[0], b.shape[1]), _C.sparse_csr)


def mm_reduced(a, b, reduce):
    """As mm, with another way than the sum to join the summands of a row; a row without any is zero."""
    if reduce == "mean":
        rows = entries(a)[0][0]
        counts = rows.bincount(minlength=a.shape[0]).clamp(min=1)
        return mm(a, b) / counts.unsqueeze(-1)
    if reduce not in ("amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, mean, amax or amin, got {reduce}")
    first, columns, values = _by_rows(a)
    dtype = taper.promote_types(values.dtype, b.dtype)
    made, _ = _kernels.mm_extreme(first, columns, values.to(dtype), b.to(dtype), reduce == "amax")
    return made


def matmul(a, b):
    if a.dim() == 2 and b.dim() == 1:
        return mv(a, b)
    if a.dim() == 1 and b.dim() == 2:
        return mv(b.t(), a)
    if a.dim() == 3 and b.dim() == 3:
        return bmm(a, b)
    if a.dim() == 2 and b.dim() == 2:
        return mm(a, b)
    if isinstance(b, Sparse) and b.dim() == 2:
        return mm(a.flatten(0, -2), b).unflatten(0, a.shape[:-1])
    raise RuntimeError(f"matmul of a sparse tensor takes matrices, got {a.dim()}D and {b.dim()}D")


def mv(a, vector):
    return mm(a, vector.unsqueeze(-1)).squeeze(-1)


def bmm(a, b):
    """A batch of products: the batch is one large matrix with a block for each."""
    at, values = entries(a)
    flat = coo(
        taper.stack([at[0] * a.shape[1] + at[1], at[0] * a.shape[2] + at[2]]),
        values,
        (a.shape[0] * a.shape[1], a.shape[0] * a.shape[2]),
    )
    return mm(flat, b.flatten(0, 1)).unflatten(0, (a.shape[0], a.shape[1]))


def addmm(mat, mat1, mat2, *, beta=1, alpha=1):
    product = mm(mat1, mat2)
    if isinstance(product, Sparse) and not isinstance(mat, Sparse):
        product = product.to_dense()
    if isinstance(mat, Sparse) and not isinstance(product, Sparse):
        mat = mat.to_dense()
    if beta == 0:  # what is in mat does not count then, nan neither
        return (
            alpha * product
            if isinstance(product, Sparse)
            else (alpha * product).expand(taper.broadcast_shapes(mat.shape, product.shape)).clone()
        )
    return beta * mat + alpha * product


def addmm_(mat, mat1, mat2, *, beta=1, alpha=1):
    return mat.copy_(addmm(mat, mat1, mat2, beta=beta, alpha=alpha))


def addmv(vector, mat, vec, *, beta=1, alpha=1):
    product = mv(mat, vec)
    return (
        (alpha * product).expand(taper.broadcast_shapes(vector.shape, product.shape)).clone()
        if beta == 0
        else beta * vector + alpha * product
    )


def addmv_(vector, mat, vec, *, beta=1, alpha=1):
    return vector.copy_(addmv(vector, mat, vec, beta=beta, alpha=alpha))


def hspmm(mat1, mat2):
    """mat1 @ mat2 with the rows that are stored as a sparse dim and the columns as a dense one."""
    rows, group = taper.unique(mat1._at[0], return_inverse=True)
    packed = coo(taper.stack([group, mat1._at[1]]), plain(mat1), (rows.shape[0], mat1.shape[1]))
    return coo(rows.unsqueeze(0), _times_dense(packed, mat2), (mat1.shape[0], mat2.shape[1]), True)


def sspaddmm(mat, mat1, mat2, *, beta=1, alpha=1):
    """beta * mat + alpha * (mat1 @ mat2) of a sparse mat1 and a dense mat2; the result is sparse."""
    for word, given, wanted in (("mat1", mat1, _C.sparse_coo), ("mat2", mat2, _C.strided)):
        if given.layout is not wanted:
            raise RuntimeError(
                f"sspaddmm: expected '{word}' to have {'sparse' if wanted is _C.sparse_coo else 'strided'} layout, "
                f"got '{word}' with layout {WORDS[given.layout]}"
            )
    product = mm(mat1, mat2)
    return beta * mat + alpha * (product if isinstance(product, Sparse) else product.to_sparse())


saddmm = sspaddmm


def linear(input, weight, bias=None):
    made = matmul(input, weight.t())
    return made if bias is None else made + bias


def sum_dims(input, dim, keepdim=False, dtype=None):
    """Sums over dims; what is left of the places stays sparse."""
    dims = {d % input.dim() for d in ([dim] if isinstance(dim, int) else dim)}
    at, values = entries(input)
    if dtype is None and not values.dtype.is_floating_point and not values.dtype.is_complex:
        dtype = _C.int64
    values = values if dtype is None else values.to(dtype)
    count = input.sparse_dim()
    inner = sorted(d - count + 1 for d in dims if d >= count)
    if inner:
        values = values.sum(inner, keepdim=keepdim)
    left = [d for d in range(count) if d not in dims]
    if not left and not keepdim:
        return values.sum(0)
    if keepdim:
        size = [1 if d in dims else n for d, n in enumerate(input.shape)]
        at = taper.stack([at[d] if d in left else taper.zeros_like(at[d]) for d in range(count)])
    else:
        size = [n for d, n in enumerate(input.shape) if d not in dims]
        at = at[left]
    made = coo(at, values, size, input.is_coalesced() and len(left) == count)
    return made.coalesce() if len(left) < count else made


def _met(mine, theirs):
    """For each of my keys: where it stands among theirs, which are in order, and whether it does."""
    if theirs.numel() == 0:
        return mine.new_zeros(mine.shape), mine.new_zeros(mine.shape, dtype=taper.bool)
    where = taper.searchsorted(theirs, mine).clamp(max=theirs.shape[0] - 1)
    return where, theirs[where] == mine


def _spread(values, shape):
    """Values whose dense dims fit `shape` by broadcasting."""
    return values.view(values.shape[0], *[1] * (len(shape) - values.dim() + 1), *values.shape[1:])


def mul_sparse(a, b):
    """Element by element: only places that both store are left. Dense dims broadcast."""
    if a.layout is not b.layout and _C.sparse_coo in (a.layout, b.layout):
        a, b = a.to_sparse(), b.to_sparse()
    if a.layout is not b.layout:
        raise RuntimeError(
            f"mul: expected 'self' and 'other' to have the same layout, but got {WORDS[a.layout]} and {WORDS[b.layout]}"
        )
    if a.is_meta:
        from taper.sparse._operators import _nothing_stored

        return _nothing_stored(a)
    if a.layout is not _C.sparse_coo:
        return _mul_compressed(a, b)
    count = a.sparse_dim()
    if count != b.sparse_dim() or a.shape[:count] != b.shape[:count]:
        raise RuntimeError(
            f"mul(sparse, sparse): operands have incompatible sizes: got {list(a.shape)} and {list(b.shape)}"
        )
    dense = taper.broadcast_shapes(a.shape[count:], b.shape[count:])
    a, b = a.coalesce(), b.coalesce()
    (at, values), (other_at, others) = entries(a), entries(b)
    if count == 0:
        both = min(values.shape[0], others.shape[0])
        return coo(at[:, :both], values[:both] * others[:both], dense, True)
    where, both = _met(keys_of(at, a.shape), keys_of(other_at, b.shape))
    return coo(
        at[:, both],
        _spread(values[both], dense) * _spread(others[where[both]], dense),
        [*a.shape[:count], *dense],
        True,
    )


def _mul_compressed(a, b):
    if a.shape != b.shape or a._blocksize() != b._blocksize():
        raise RuntimeError(
            f"mul: expected 'self' and 'other' to have the same sizes and blocks, but got {list(a.shape)} and "
            f"{list(b.shape)}"
        )
    (at, values, count), (other_at, others, _) = a._blocks(), b._blocks()
    mine, theirs = (keys_of(x, count) for x in (at, other_at))
    order, other_order = mine.argsort(), theirs.argsort()
    where, both = _met(mine[order], theirs[other_order])
    kept = order[both]
    return pack(
        at[:, kept], values[kept] * others[other_order[where[both]]], count, a.shape, a.layout, a._compressed.dtype
    )


def mul_dense(sparse, dense):
    """A sparse tensor times a dense one, at the places that are stored."""
    if sparse.layout is not _C.sparse_coo:
        return sparse._like(values=plain(sparse) * plain(mask_dense(dense.expand(sparse.shape), sparse)))
    size = taper.broadcast_shapes(sparse.shape, dense.shape)
    sparse = sparse if tuple(size) == tuple(sparse.shape) else broadcast_to(sparse, size)
    return sparse._like(values=plain(sparse) * at_places(dense.expand(size), sparse._at))


def mask_sparse(sparse, mask):
    """A sparse tensor at the places that another one stores, and zero where it stores none there."""
    if sparse.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(sparse.shape)} but mask has size "
            f"{list(mask.shape)}"
        )
    if mask.layout is not _C.sparse_coo:
        return mask_dense(sparse.to_dense(), mask)
    sparse = sparse.to_sparse()
    if sparse.sparse_dim() != mask.sparse_dim():
        raise RuntimeError(
            "sparse_mask(): the number of sparse dimensions in `self` should match that of the `mask`. "
            f"Got `self.sparse_dim() == {sparse.sparse_dim()}` != `mask.sparse_dim() == {mask.sparse_dim()}`."
        )
    at, values = entries(sparse.coalesce())
    where, stored = _met(keys_of(mask._at, mask.shape), keys_of(at, sparse.shape))
    if values.shape[0] == 0:
        return mask._like(values=values.new_zeros(mask._at.shape[1], *values.shape[1:]))
    return mask._like(
        values=taper.where(stored.view(-1, *[1] * (values.dim() - 1)), values[where], values.new_zeros(()))
    )


def broadcast_to(sparse, size):
    """A COO tensor of a larger size: what is stored is stored again for each place of a dim that grows."""
    size = [*size]
    new, count = len(size) - sparse.dim(), sparse.sparse_dim()
    size = [sparse.shape[i - new] if n == -1 else n for i, n in enumerate(size)]
    if new < 0 or any(n != 1 and n != size[new + i] for i, n in enumerate(sparse.shape)):
        raise RuntimeError(f"broadcast_to: {list(sparse.shape)} does not broadcast to {size}")
    if sparse.layout is not _C.sparse_coo:
        if new or list(sparse.shape) != size:
            raise RuntimeError("expand is unsupported for Sparse compressed tensors")
        return sparse
    at, values = entries(sparse)
    rows = [at.new_zeros(at.shape[1])] * new + list(at)
    values = values.expand(-1, *size[new + count :]) if values.dim() > 1 else values
    for dim in reversed(range(new + count)):
        n = size[dim]
        if (dim < new or sparse.shape[dim - new] == 1) and n != 1:
            stored = rows[0].shape[0]
            rows = [row.repeat(n) for row in rows]
            rows[dim] = taper.arange(n, device=at.device).repeat_interleave(stored)
            values = values.repeat(n, *[1] * (values.dim() - 1))
    made_at = taper.stack(rows) if rows else at
    grown_inside = any(sparse.shape[i] == 1 != size[new + i] for i in range(count))
    return coo(made_at, values, size, made_at.shape[1] < 2 or sparse.is_coalesced() and not grown_inside)
