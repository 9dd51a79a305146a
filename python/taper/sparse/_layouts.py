"""Conversions between the layouts: coordinates (COO), rows or columns one after the other (CSR, CSC), and the same of
blocks (BSR, BSC).

A compressed tensor is unpacked into places, [batch dims + 2, count], and what stands there, [count, *block, *dense];
packing is the way back. Values are only moved by operators that have gradients."""

import taper
from taper import _C
from taper._C import Size
from taper.sparse import _kernels
from taper.sparse._tensor import BLOCKS, ROWS, WORDS, coo, compressed, entries, keys_of


def _by_line(at, values, batch, lines, dim):
    """Places and values in the order of their batch and their number in `dim`, which is one of so many, and where each
    begins."""
    key = keys_of(taper.stack([*at[:-2], at[dim]]), [*batch, lines]) if batch else at[dim]
    begins, order = _kernels.group(key, Size([*batch, lines]).numel())
    return at[:, order], values[order], begins


def pack(at, values, count, size, layout, index_dtype=_C.int64):
    """The compressed tensor with these values at these places, which are distinct and in the order of their keys;
    `count` is [*batch, rows, columns] of places."""
    batch, dim = count[:-2], -2 if layout in ROWS else -1
    lines = count[dim]
    if layout in ROWS and not batch:
        first = _kernels.coo_to_csr(at[0], lines)
    else:
        at, values, first = _by_line(at, values, batch, lines, dim)
    groups = Size(batch).numel()
    stored = at.shape[1] // groups if groups else 0
    if batch:
        starts = taper.arange(groups, device=at.device).unsqueeze(1)
        first = first[starts * lines + taper.arange(lines + 1, device=at.device)] - starts * stored
        if (first[:, 0] != 0).any() or (first[:, -1] != stored).any():
            raise RuntimeError("Expect the same number of specified elements per batch.")
    others = at[-3 - dim].to(index_dtype).contiguous().view(*batch, stored)
    return compressed(
        first.to(index_dtype).view(*batch, lines + 1),
        others,
        values.unflatten(0, (*batch, stored)) if batch else values,
        size,
        layout,
    )


def _blocked(at, values, blocksize):
    """Places of blocks and the blocks, of elements of a matrix at distinct places."""
    high, wide = blocksize
    columns = int(at[1].max()) // wide + 1 if at.shape[1] else 1
    keys, group = taper.unique(at[0] // high * columns + at[1] // wide, return_inverse=True)
    blocks = values.new_zeros(keys.shape[0], high, wide, *values.shape[1:]).index_put(
        (group, at[0] % high, at[1] % wide), values
    )
    return taper.stack([keys // columns, keys % columns]), blocks


def _check_blocks(name, size, blocksize, first=0):
    if len(blocksize) != 2:
        raise RuntimeError(f"{name}: blocksize needs to be a tuple of size 2, but got {len(blocksize)}")
    if min(blocksize) <= 0:
        raise RuntimeError(f"{name}: blocksize needs to be positive, but got {list(blocksize)}")
    if size[first] % blocksize[0] or size[first + 1] % blocksize[1]:
        raise RuntimeError(
            f"{name}: tensor sparse size ({size[first]},{size[first + 1]}) must be divisible by given blocksize "
            f"({blocksize[0]},{blocksize[1]})"
        )


def _check_arguments(name, source, layout, blocksize, dense_dim):
    """Which arguments go with which pair of layouts."""
    text = f"{name}: conversion from {WORDS[source]} to {WORDS[layout]}"
    if blocksize is not None and layout not in BLOCKS:
        raise RuntimeError(f"{text} with blocksize argument given is not supported")
    if blocksize is None and layout in BLOCKS and source not in BLOCKS:
        raise RuntimeError(f"{text} without blocksize argument given is not supported")
    if dense_dim is not None and source is not _C.strided:
        raise RuntimeError(f"{text} with dense_dim argument given is not supported")
    return text


def from_dense(tensor, sparse_dim=None, layout=None, blocksize=None, dense_dim=None, name="dense_to_sparse"):
    """The elements of a dense tensor that are not zero; a place is left out where all of its block and its dense dims
    are."""
    layout = layout or _C.sparse_coo
    if layout is _C.strided:
        _check_arguments("to_sparse", _C.strided, layout, blocksize, None)
        return tensor
    _check_arguments(name, _C.strided, layout, blocksize, dense_dim)
    if layout is not _C.sparse_coo:
        return _dense_to_compressed(tensor, layout, blocksize, dense_dim or 0, "dense_to_" + str(layout)[6:])
    dims = tensor.dim()
    count = dims - (dense_dim or 0) if sparse_dim is None else sparse_dim
    if not 0 <= count <= dims:
        raise RuntimeError(f"dense_to_sparse: sparse_dim argument must be in [0,{dims}] range, but {count} is given")
    if count == 0 and dims:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    stored = (tensor != 0).flatten(count).any(-1) if count < dims else tensor != 0
    at = stored.nonzero().t().contiguous()
    return coo(at, tensor[tuple(at)] if count else tensor.reshape(1)[: at.shape[1]], tensor.shape, True)


def _dense_to_compressed(tensor, layout, blocksize, dense_dim, name):
    batch = tensor.dim() - 2 - dense_dim
    if dense_dim < 0 or batch < 0:
        raise RuntimeError(
            f"{name}: dense_dim argument must be in [0,{tensor.dim() - 2}] range, but {dense_dim} is given"
        )
    if 0 in tensor.shape[:batch]:
        raise RuntimeError(f"to_{str(layout)[6:]}: Expected product of batch dimensions to be non-zero.")
    tiles = tensor
    if layout in BLOCKS:
        _check_blocks(name, tensor.shape, blocksize, batch)
        high, wide = blocksize
        tiles = (
            tensor.unflatten(batch + 1, (tensor.shape[batch + 1] // wide, wide))
            .unflatten(batch, (tensor.shape[batch] // high, high))
            .transpose(batch + 1, batch + 2)
        )
    stored = (tiles != 0).flatten(batch + 2).any(-1) if tiles.dim() > batch + 2 else tiles != 0
    at = stored.nonzero().t()
    return pack(at, tiles[tuple(at)], tiles.shape[: batch + 2], tensor.shape, layout)


def convert(sparse, sparse_dim=None, layout=None, blocksize=None, dense_dim=None, name=None):
    """A sparse tensor in another layout."""
    source, layout = sparse.layout, layout or _C.sparse_coo
    from_coo = source is _C.sparse_coo
    if layout is _C.strided:
        return sparse.to_dense()
    called = name or (
        "to_sparse" if layout is source else "sparse_coo_to_sparse" if from_coo else "sparse_compressed_to_sparse"
    )
    text = _check_arguments(called, source, layout, blocksize, dense_dim)
    if sparse_dim is not None and sparse_dim != sparse.sparse_dim():
        raise RuntimeError(
            f"{text} with sparse_dim argument !={'self.sparse_dim()' if from_coo else 2} is not supported"
        )
    if layout is source:
        if blocksize is not None and tuple(blocksize) != sparse._blocksize():
            raise RuntimeError(
                f"to_{str(layout)[6:]}: conversion from {WORDS[source]} to {WORDS[layout]} with blocksize changed "
                f"from {list(sparse._blocksize())} to {list(blocksize)} is not supported"
            )
        return sparse
    if from_coo and sparse.sparse_dim() != 2:
        raise RuntimeError(f"{text} for input tensors with sparse_dim()!=2 is not supported")
    if layout is _C.sparse_coo:
        return _to_coo(sparse)
    if from_coo:
        return _from_elements(*entries(sparse.coalesce()), sparse.shape, layout, blocksize, called, _C.int64)
    if source in BLOCKS and layout not in BLOCKS:
        raise RuntimeError(
            f"sparse_compressed_to_{str(layout)[6:]}: expected SparseCsr or SparseCsc layout but got {WORDS[source]}"
        )
    if layout in BLOCKS and source not in BLOCKS:
        if sparse._batch():
            raise RuntimeError(f"{text} for batched inputs is not supported")
        return _from_elements(*_in_order(sparse), sparse.shape, layout, blocksize, called, sparse._compressed.dtype)
    at, values, count = sparse._blocks()
    if source not in ROWS:
        at, values, _ = _by_line(at, values, count[:-2], count[-2], -2)
    return pack(at, values, count, sparse.shape, layout, sparse._compressed.dtype)


def _from_elements(at, values, size, layout, blocksize, name, index_dtype):
    count = list(size[:2])
    if layout in BLOCKS:
        _check_blocks(name, size, blocksize)
        at, values = _blocked(at, values, blocksize)
        count = [count[0] // blocksize[0], count[1] // blocksize[1]]
    return pack(at, values, count, size, layout, index_dtype)


def _in_order(sparse):
    """Elements in the order of the rows."""
    at, values = entries(sparse)
    if sparse.layout is _C.sparse_csr:
        return at, values
    if sparse.layout is _C.sparse_csc:
        batch = sparse._batch()
        return _by_line(at, values, batch, sparse.shape[len(batch)], -2)[:2]
    order = keys_of(at, sparse.shape).argsort(stable=True)
    return at[:, order], values[order]


def _to_coo(sparse):
    if sparse.layout in ROWS:
        return coo(*_in_order(sparse), sparse.shape, True)
    at, values = entries(sparse)
    return coo(at, values, sparse.shape, at.shape[1] < 2)


def mask_dense(dense, mask):
    """The elements of a dense tensor at the places that a sparse one stores."""
    if dense.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(dense.shape)} but mask has size "
            f"{list(mask.shape)}"
        )
    if mask.layout is _C.sparse_coo:
        return mask._like(values=at_places(dense, mask._at))
    at, _, _ = mask._blocks()
    batch, block = len(mask._batch()), mask._blocksize()
    if block:
        high, wide = block
        dense = dense.unflatten(batch + 1, (-1, wide)).unflatten(batch, (-1, high)).transpose(batch + 1, batch + 2)
    return mask._like(values=dense[tuple(at)].unflatten(0, mask._plain.shape))


def at_places(dense, at):
    return dense[tuple(at)] if at.shape[0] else dense.unsqueeze(0).expand(at.shape[1], *dense.shape)
