"""The constructors of sparse tensors, and the checks of what they are given
(torch.sparse.check_sparse_tensor_invariants)."""

import taper
from taper import _C
from taper.sparse._tensor import BLOCKS, ROWS, WORDS, coo, compressed, keys_of

_DTYPE_WORDS = {
    _C.bool: "Bool",
    _C.uint8: "Byte",
    _C.int8: "Char",
    _C.int16: "Short",
    _C.int32: "Int",
    _C.int64: "Long",
    _C.float16: "Half",
    _C.bfloat16: "BFloat16",
    _C.float32: "Float",
    _C.float64: "Double",
    _C.complex64: "ComplexFloat",
    _C.complex128: "ComplexDouble",
}
always_check = [False]  # what check_sparse_tensor_invariants sets


def dtype_word(dtype):
    """What PyTorch's messages call a dtype."""
    return _DTYPE_WORDS.get(dtype, str(dtype))


def _asked(check_invariants):
    return always_check[0] if check_invariants is None else check_invariants


# ---- Coordinates ----
def _shape_of_coo(indices, values, size):
    if size is not None and len(size) != indices.shape[0] + values.dim() - 1:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = "
            f"{indices.shape[0]}, dense_dim = {values.dim() - 1}"
        )


def validate_coo(indices, values, size, is_coalesced=None):
    """Raises what PyTorch raises for parts that make no COO tensor."""
    if indices.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    if indices.is_sparse or values.is_sparse:
        raise RuntimeError(
            f"expected {'indices' if indices.is_sparse else 'values'} to be a dense tensor, but got "
            f"{WORDS[indices.layout]}"
        )
    if size is None:
        return
    count = indices.shape[0]
    if len(size) != count + values.dim() - 1:
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({count}) + dense_dim ({values.dim() - 1}), but got {len(size)}"
        )
    if indices.shape[1] != values.shape[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {indices.shape[1]}, nnz from values: "
            f"{values.shape[0]}"
        )
    if tuple(values.shape[1:]) != tuple(size[count:]):
        raise RuntimeError(
            f"values has incorrect size, expected {[values.shape[0], *size[count:]]}, got {list(values.shape)}"
        )
    if indices.is_meta or not indices.numel():
        return
    _not_negative(indices)
    for dim, found in enumerate(indices.amax(1).tolist()):
        if found >= size[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {size[dim]} but found index {found}"
            )
    if is_coalesced and not (keys_of(indices, size).diff() > 0).all():
        raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")


def _not_negative(indices):
    for dim, found in enumerate(indices.amin(1).tolist()):
        if found < 0:
            raise RuntimeError(f"found negative index {found} for dim {dim}")


def _as_values(values, dtype, device):
    made = taper.as_tensor(values, dtype=dtype, device=device)
    return made.view_as(made) if isinstance(values, _C.Tensor) and made is values else made


def sparse_coo_tensor(
    indices=None,
    values=None,
    size=None,
    *,
    dtype=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
    is_coalesced=None,
    layout=None,
):
    """A tensor with values at the places that the columns of indices name; the values of a place that stands twice add
    up."""
    if values is None and indices is not None and size is None:
        indices, size = None, indices  # torch.sparse_coo_tensor((2, 3))
    if indices is None:
        made = empty(size, dtype=dtype, device=device)
        return made.requires_grad_() if requires_grad else made
    values = _as_values(values, dtype, device)
    values = values.unsqueeze(0) if values.dim() == 0 else values
    indices = taper.as_tensor(indices, device=values.device).to(taper.int64)
    if indices.dim() == 1 and indices.shape[0] == 0:  # an empty list
        indices = indices.view(len(size) - values.dim() + 1 if size is not None else 0, 0)
    elif indices.dim() == 1:
        indices = indices.unsqueeze(-1)
    size = None if size is None else tuple(size)
    validate_coo(indices, values, None)
    if size is None:
        if not indices.is_meta and indices.numel():
            _not_negative(indices)
        size = [*((indices.amax(1) + 1).tolist() if indices.numel() else [0] * indices.shape[0]), *values.shape[1:]]
    _shape_of_coo(indices, values, size)
    if indices.shape[1] != values.shape[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {indices.shape[1]}, nnz from values: "
            f"{values.shape[0]}"
        )
    if tuple(values.shape[1:]) != tuple(size[indices.shape[0] :]):
        raise RuntimeError(
            f"values has incorrect size, expected {[values.shape[0], *size[indices.shape[0] :]]}, got "
            f"{list(values.shape)}"
        )
    if _asked(check_invariants):
        validate_coo(indices, values, size, is_coalesced)
    values = values.detach() if requires_grad else values
    values = values.pin_memory() if pin_memory else values
    made = coo(indices, values, size, indices.shape[1] < 2 if is_coalesced is None else is_coalesced)
    return made.requires_grad_() if requires_grad else made


# ---- Rows, columns, blocks ----
def _names(layout):
    """(compressed, plain, how many of the first there are, how many of the second) as error messages call them."""
    if layout in ROWS:
        return (
            ("crow_indices", "col_indices", "nrows", "ncols")
            if layout not in BLOCKS
            else ("crow_indices", "col_indices", "nrowblocks", "ncolblocks")
        )
    return (
        ("ccol_indices", "row_indices", "ncols", "nrows")
        if layout not in BLOCKS
        else ("ccol_indices", "row_indices", "ncolblocks", "nrowblocks")
    )


def validate_compressed(first, others, values, size, layout):
    """Raises what PyTorch raises for parts that make no tensor of this layout."""
    compressed_name, plain_name, lines_name, _ = _names(layout)
    block = 2 if layout in BLOCKS else 0
    for name, part in ((compressed_name, first), (plain_name, others)):
        if part.layout is not _C.strided:
            raise RuntimeError(f"expected {name} to be a strided tensor but got {WORDS[part.layout]} layout")
        if part.numel() and part.shape[-1:] and part.shape[-1] > 1 and part.stride(-1) != 1:
            raise RuntimeError(f"expected {name} to be a contiguous tensor per batch")
    if values.layout is not _C.strided:
        raise RuntimeError(f"expected values to be a strided tensor but got {WORDS[values.layout]} layout")
    if first.dim() < 1:
        raise RuntimeError(f"{compressed_name} must have dimensionality >= 1 but got {first.dim()}")
    if first.dim() != others.dim():
        raise RuntimeError(
            f"{compressed_name} and {plain_name} dimensionalities must be equal but got {first.dim()} and "
            f"{others.dim()}, respectively"
        )
    batch = first.dim() - 1
    if values.dim() <= batch + block:
        raise RuntimeError(
            f"values must have dimensionality > sum of batch and block dimensionalities (={batch} + {block}) but got "
            f"{values.dim()}"
        )
    dense = values.dim() - batch - block - 1
    if len(size) != batch + 2 + dense:
        raise RuntimeError(
            f"tensor dimensionality must be sum of batch, base, and dense dimensionalities (={batch} + 2 + {dense}) "
            f"but got {len(size)}"
        )
    batches = [list(x[:batch]) for x in (first.shape, others.shape, values.shape, size)]
    if any(x != batches[3] for x in batches[:3]):
        raise RuntimeError(
            f"all batch dimensions of {compressed_name} (={batches[0]}), {plain_name} (={batches[1]}), and values "
            f"(={batches[2]}) must be equal to tensor batch dimensions (={batches[3]})"
        )
    count = list(size[batch : batch + 2])
    for i in range(block):
        step = values.shape[batch + 1 + i]
        if step == 0 or count[i] % step:
            raise RuntimeError(
                f"tensor shape[{batch + i}] (={count[i]}) must be divisible with blocksize[{i}] (={step}) as defined "
                "by values shape"
            )
        count[i] //= step
    lines, across = count if layout in ROWS else count[::-1]
    if first.shape[-1] != lines + 1:
        raise RuntimeError(
            f"{compressed_name}.shape[-1] must be equal to the number of {lines_name} + 1 (={lines + 1}), but got "
            f"{first.shape[-1]}"
        )
    stored = values.shape[batch]
    if others.shape[-1] != stored:
        raise RuntimeError(
            f"{plain_name}.shape[-1] must be equal to nnz (={stored}) as defined by values.shape[{batch}], but got "
            f"{others.shape[-1]}"
        )
    if tuple(values.shape[batch + 1 + block :]) != tuple(size[batch + 2 :]):
        raise RuntimeError(
            f"values dense dimensions (={list(values.shape[batch + 1 + block :])}) must be equal to tensor dense "
            f"dimensions (={list(size[batch + 2 :])})"
        )
    if first.dtype != others.dtype:
        raise RuntimeError(
            f"{compressed_name} and {plain_name} must have the same dtype, bot got {dtype_word(first.dtype)} and "
            f"{dtype_word(others.dtype)}, respectively"
        )
    if first.dtype not in (_C.int32, _C.int64):
        raise RuntimeError(
            f"{compressed_name} and {plain_name} dtype must be Int or Long, but got {dtype_word(first.dtype)}"
        )
    if first.device != values.device:
        raise RuntimeError(
            f"device of {compressed_name} (={first.device}) must match device of values (={values.device})"
        )
    if not first.is_meta:
        validate_indices(layout, first, others, lines, across, stored)


def validate_indices(layout, first, others, lines, across, stored):
    """The indices themselves."""
    compressed_name, plain_name, lines_name, across_name = _names(layout)
    if first.numel() == 0:
        return
    if (first[..., 0] != 0).any():
        raise RuntimeError(f"`{compressed_name}[..., 0] == 0` is not satisfied.")
    if (first[..., -1] != stored).any():
        raise RuntimeError(f"`{compressed_name}[..., -1] == nnz` is not satisfied.")
    steps = first.diff(dim=-1)
    if ((steps < 0) | (steps > across)).any():
        raise RuntimeError(
            f"`0 <= {compressed_name}[..., 1:] - {compressed_name}[..., :-1] <= {across_name}` is not satisfied."
        )
    if ((others < 0) | (others >= across)).any():
        raise RuntimeError(f"`0 <= {plain_name} < {across_name}` is not satisfied.")
    if others.shape[-1] > 1:
        begins = taper.zeros(*others.shape[:-1], stored + 1, dtype=taper.bool, device=first.device).scatter(
            -1, first.to(taper.int64), True
        )
        if ((others.diff(dim=-1) <= 0) & ~begins[..., 1:-1]).any():
            raise RuntimeError(
                f"`{plain_name}[..., {compressed_name}[..., i - 1]:{compressed_name}[..., i]] for all i = 1, ..., "
                f"{lines_name} are sorted and distinct along the last dimension values` is not satisfied."
            )


def _infer_size(first, others, values, layout):
    batch, block = first.dim() - 1, (1, 1)
    if layout in BLOCKS:
        block = values.shape[batch + 1 : batch + 3]
    pair = [first.shape[-1] - 1, int(others.max()) + 1 if others.numel() else 0]
    pair = pair if layout in ROWS else pair[::-1]
    return [
        *first.shape[:-1],
        pair[0] * block[0],
        pair[1] * block[1],
        *values.shape[batch + 1 + 2 * (layout in BLOCKS) :],
    ]


def _made(first, others, values, size, dtype, device, pin_memory, requires_grad, check_invariants, layout):
    values = _as_values(values, dtype, device)
    first, others = (
        x.to(values.device) if isinstance(x, _C.Tensor) else taper.tensor(x, dtype=taper.int64, device=values.device)
        for x in (first, others)
    )
    size = tuple(_infer_size(first, others, values, layout) if size is None else size)
    if _asked(check_invariants):
        validate_compressed(first, others, values, size, layout)
    values = values.detach() if requires_grad else values
    values = values.pin_memory() if pin_memory else values
    made = compressed(first, others, values, size, layout)
    return made.requires_grad_() if requires_grad else made


def sparse_csr_tensor(
    crow_indices,
    col_indices,
    values,
    size=None,
    *,
    dtype=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
):
    """A matrix whose row i has the columns and values from crow_indices[i] to crow_indices[i + 1]."""
    return _made(
        crow_indices,
        col_indices,
        values,
        size,
        dtype,
        device,
        pin_memory,
        requires_grad,
        check_invariants,
        _C.sparse_csr,
    )


def sparse_csc_tensor(
    ccol_indices,
    row_indices,
    values,
    size=None,
    *,
    dtype=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
):
    """A matrix whose column i has the rows and values from ccol_indices[i] to ccol_indices[i + 1]."""
    return _made(
        ccol_indices,
        row_indices,
        values,
        size,
        dtype,
        device,
        pin_memory,
        requires_grad,
        check_invariants,
        _C.sparse_csc,
    )


def sparse_bsr_tensor(
    crow_indices,
    col_indices,
    values,
    size=None,
    *,
    dtype=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
):
    """As sparse_csr_tensor, of blocks: values are [nnz, rows of a block, columns of a block]."""
    return _made(
        crow_indices,
        col_indices,
        values,
        size,
        dtype,
        device,
        pin_memory,
        requires_grad,
        check_invariants,
        _C.sparse_bsr,
    )


def sparse_bsc_tensor(
    ccol_indices,
    row_indices,
    values,
    size=None,
    *,
    dtype=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
):
    """As sparse_csc_tensor, of blocks: values are [nnz, rows of a block, columns of a block]."""
    return _made(
        ccol_indices,
        row_indices,
        values,
        size,
        dtype,
        device,
        pin_memory,
        requires_grad,
        check_invariants,
        _C.sparse_bsc,
    )


def sparse_compressed_tensor(
    compressed_indices,
    plain_indices,
    values,
    size=None,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
):
    """sparse_csr_tensor and its kin, by the layout."""
    if layout in (None, _C.strided, _C.sparse_coo):
        raise RuntimeError(f"expected sparse compressed tensor layout but got {WORDS.get(layout, layout)}")
    return _made(
        compressed_indices,
        plain_indices,
        values,
        size,
        dtype,
        device,
        pin_memory,
        requires_grad,
        check_invariants,
        layout,
    )


# ---- Without elements ----
def empty(size, layout=_C.sparse_coo, dtype=None, device=None, name="empty"):
    """A tensor that stores nothing."""
    size = tuple(size)
    if layout is _C.sparse_coo:
        return coo(
            taper.zeros(len(size), 0, dtype=taper.int64, device=device),
            taper.zeros(0, dtype=dtype, device=device),
            size,
            True,
        )
    if layout in BLOCKS:
        raise RuntimeError(
            f"empty_sparse_compressed expected sparse compressed (non-block) tensor layout but got {WORDS[layout]}"
        )
    if len(size) < 2:
        raise RuntimeError(
            f"torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got size {list(size)}"
        )
    first = taper.zeros(*size[:-2], size[-2 if layout in ROWS else -1] + 1, dtype=taper.int64, device=device)
    return compressed(
        first,
        taper.zeros(*size[:-2], 0, dtype=taper.int64, device=device),
        taper.zeros(*size[:-2], 0, dtype=dtype, device=device),
        size,
        layout,
    )


def factory(name, *args, layout, dtype=None, device=None, requires_grad=False, out=None, **kwargs):
    """torch.zeros and its kin with a sparse layout=."""
    if name in ("ones", "full", "ones_like", "full_like", "new_ones", "new_full"):
        raise RuntimeError("full(...) is not implemented for sparse layout")
    if name.endswith("_window"):
        raise RuntimeError(f"{name} is not implemented for sparse types, got: layout={layout}")
    if name not in ("empty", "zeros", "empty_like", "zeros_like", "new_empty", "new_zeros"):
        from taper.sparse._operators import refuse

        refuse({"rand": "uniform_", "randn": "normal_"}.get(name, name), empty((0, 0), layout))
    model = args[0] if name.startswith("new_") or name.endswith("_like") else None
    size = kwargs.pop("size", None)
    if name.endswith("_like"):
        size = model.shape
    elif size is None:
        size = args[1:] if model is not None else args
        size = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    if model is not None:
        dtype, device = dtype or model.dtype, device or model.device
    made = empty(size, layout, dtype, device)
    return made.requires_grad_() if requires_grad else made


def with_dims(nnz, dense_dim, size, blocksize, index_dtype, *, dtype=None, layout=None, device=None, pin_memory=None):
    """torch.ops.aten._sparse_compressed_tensor_with_dims: room for nnz elements or blocks that are not set."""
    batch = len(size) - 2 - dense_dim
    lines = size[batch + (layout not in ROWS)] // (blocksize[layout not in ROWS] if blocksize else 1)
    return compressed(
        taper.zeros(*size[:batch], lines + 1, dtype=index_dtype, device=device),
        taper.zeros(*size[:batch], nnz, dtype=index_dtype, device=device),
        taper.zeros(*size[:batch], nnz, *blocksize, *size[batch + 2 :], dtype=dtype, device=device),
        size,
        layout,
    )
