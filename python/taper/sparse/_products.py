"""Products and sums of sparse tensors: over places and values, with operators that have gradients."""
import taper
from taper.sparse._tensor import Sparse, coo, entries, keys_of


def _rows_of_sum(rows, count, summands):
    return summands.new_zeros(count, *summands.shape[1:]).index_add(0, rows, summands)


def _scaled_rows(sparse, dense):
    """Which row of the product each stored element adds to, and what it adds."""
    at, values = entries(sparse)
    return at[0], values.unsqueeze(-1) * dense.index_select(0, at[1])


def _check(a, b, what="mm"):
    if a.shape[-1] != b.shape[0]:
        raise RuntimeError(f"{what}: mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[-1]} and {'x'.join(map(str, b.shape))})")


def mm(a, b):
    """a @ b for matrices of which one or both are sparse."""
    _check(a, b)
    if not isinstance(a, Sparse):
        return mm(b.t(), a.t()).t()
    if isinstance(b, Sparse):
        made = _both_sparse(a, b)
        return made if a.layout is taper.sparse_coo else made.to_sparse(layout=a.layout)
    rows, summands = _scaled_rows(a, b)
    return _rows_of_sum(rows, a.shape[0], summands)


spmm = dsmm = mm  # its older names


def _both_sparse(a, b):
    """Each element (i, k) of a meets all elements (k, j) of b: their row begins at first[k] in b's list."""
    at, values = entries(a.to_sparse().coalesce())
    other_at, other_values = entries(b.to_sparse().coalesce())
    counts = other_at[0].bincount(minlength=b.shape[0])
    first, meets = counts.cumsum(0) - counts, counts[at[1]]
    mine = taper.arange(at.shape[1]).repeat_interleave(meets)
    within = taper.arange(mine.shape[0]) - (meets.cumsum(0) - meets).repeat_interleave(meets)
    theirs = first[at[1]].repeat_interleave(meets) + within
    places = taper.stack([at[0][mine], other_at[1][theirs]])
    return coo(places, values[mine] * other_values[theirs], (a.shape[0], b.shape[1])).coalesce()


def mm_reduced(a, b, reduce):
    """As mm, with another way than the sum to join the summands of a row; a row without any is zero."""
    rows, summands = _scaled_rows(a, b)
    index = rows.unsqueeze(-1).expand_as(summands)
    return summands.new_zeros(a.shape[0], b.shape[1]).scatter_reduce(0, index, summands, reduce, include_self=False)


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
    flat = coo(taper.stack([at[0] * a.shape[1] + at[1], at[0] * a.shape[2] + at[2]]), values, (a.shape[0] * a.shape[1], a.shape[0] * a.shape[2]))
    return mm(flat, b.flatten(0, 1)).unflatten(0, (a.shape[0], a.shape[1]))


def addmm(mat, mat1, mat2, *, beta=1, alpha=1):
    product = mm(mat1, mat2)
    if isinstance(product, Sparse) != isinstance(mat, Sparse):
        product = product.to_dense() if isinstance(product, Sparse) else product
    return beta * mat + alpha * product


def linear(input, weight, bias=None):
    made = matmul(input, weight.t())
    return made if bias is None else made + bias


def sum_dims(input, dim, keepdim=False, dtype=None):
    """Sums over dims; what is left of the places stays sparse."""
    dims = {d % input.dim() for d in ([dim] if isinstance(dim, int) else dim)}
    at, values = entries(input)
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


def _met(a, b):
    """For each place of a: where it stands in b's list, and whether it does. Both are coalesced."""
    mine, theirs = keys_of(a._at, a.shape), keys_of(b._at, b.shape)
    if theirs.numel() == 0:
        return mine.new_zeros(mine.shape), mine.new_zeros(mine.shape, dtype=taper.bool)
    where = taper.searchsorted(theirs, mine).clamp(max=theirs.shape[0] - 1)
    return where, theirs[where] == mine


def mul_sparse(a, b):
    """Element by element: only places that both store are left."""
    a, b = a.coalesce(), b.coalesce()
    where, both = _met(a, b)
    at, values = entries(a)
    return coo(at[:, both], values[both] * entries(b)[1][where[both]], a.shape, True)


def at_places(dense, sparse):
    """The elements of a dense tensor, broadcast to the sparse one's shape, at its places."""
    return dense.expand(sparse.shape)[tuple(sparse._at)] if sparse.sparse_dim() else dense.expand(sparse.shape).unsqueeze(0)
