"""Functions that torch has beside those of nn.functional, with signatures of their own: weights first, every setting by
position, reductions as numbers (0 none, 1 mean, 2 sum). And what works on sizes that may be symbols elsewhere: here
they are plain numbers."""

import math

import taper
from taper._C import _functions as _op
from taper.nn import functional as F

_REDUCTIONS = "none", "mean", "sum"


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return F.embedding(
        indices, weight, padding_idx if padding_idx >= 0 else None, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )


def embedding_bag(
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """(the bags, the bag of each index, the sizes of bags, where maxima stood); what backward keeps elsewhere is empty
    or zero here."""
    if indices.dim() not in (1, 2):
        raise RuntimeError(f"input has to be a 1D or 2D Tensor, but got Tensor of dimension {indices.dim()}")
    if indices.dim() == 1 and offsets.dim() != 1:
        raise RuntimeError(f"offsets has to be a 1D Tensor, but got Tensor of dimension {offsets.dim()}")
    bags = F.embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=("sum", "mean", "max")[mode],
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    return bags, indices.new_empty(0), taper.zeros_like(offsets), taper.zeros_like(offsets)


def _embedding_bag(
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=-1,
):
    """embedding_bag, without a padding index where it is negative."""
    return embedding_bag(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx if padding_idx >= 0 else None,
    )


_embedding_bag_forward_only = _embedding_bag


def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled):
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=0, zero_infinity=False):
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _REDUCTIONS[reduction], zero_infinity)


def kl_div(input, target, reduction=0, log_target=False):
    return F.kl_div(input, target, reduction=_REDUCTIONS[reduction], log_target=log_target)


def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=0):
    return F.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_REDUCTIONS[reduction], pos_weight=pos_weight
    )


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=0):
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_REDUCTIONS[reduction])


def hinge_embedding_loss(input, target, margin=1.0, reduction=0):
    return F.hinge_embedding_loss(input, target, margin, reduction=_REDUCTIONS[reduction])


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=0):
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_REDUCTIONS[reduction])


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, reduction=0):
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_REDUCTIONS[reduction])


def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_REDUCTIONS[reduction])


def adaptive_max_pool1d(input, output_size):
    return F.adaptive_max_pool1d(input, output_size, return_indices=True)


def native_dropout(input, p, train):
    """(what is left, scaled; which elements those are)."""
    if not train:
        return input.clone(), taper.ones_like(input, dtype=taper.bool)
    kept = taper.empty_like(input).bernoulli_(1 - p)
    return input * kept * (0.0 if p == 1 else 1 / (1 - p)), kept.bool()


def detach(input):
    return input.detach()


def detach_(input):
    return input.detach_()


def resize_as_(input, the_template, *, memory_format=None):
    return input.resize_as_(the_template)


def empty_permuted(
    size, physical_layout, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False
):
    """An uninitialised tensor whose dims lie in memory in the order physical_layout names, the slowest first."""
    made = taper.empty([size[d] for d in physical_layout], dtype=dtype, device=device, pin_memory=pin_memory)
    return made.permute([physical_layout.index(d) for d in range(len(size))]).requires_grad_(requires_grad)


def to_dlpack(input):
    return input.__dlpack__()


# ---- Control flow ----
def cond(pred, true_fn, false_fn, operands=()):
    """One of two functions, by a truth that may stand in a tensor."""
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(cond_fn, body_fn, carried_inputs):
    """body_fn again and again, as long as cond_fn of what it gave is true."""
    while bool(cond_fn(*carried_inputs)):
        carried_inputs = body_fn(*carried_inputs)
    return tuple(carried_inputs)


# ---- Numbers that stand for sizes ----
class SymInt:
    """A size that is not known yet. Taper's sizes are plain ints, so there are none."""


class SymFloat:
    """As SymInt, a float."""


class SymBool:
    """As SymInt, a truth."""


def sym_int(a):
    return math.floor(a) if a >= 0 else math.ceil(a)


def sym_float(a):
    return float(a)


def sym_not(a):
    return not a


def _alike(a, b, found):
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_max(a, b):
    return _alike(a, b, max(a, b))


def sym_min(a, b):
    return _alike(a, b, min(a, b))


def sym_ite(b, t, f):
    return t if b else f


def sym_sum(args):
    return sum(args)


def sym_sqrt(a):
    return math.sqrt(a)


# ---- Beneath torch.sparse and torch.segment_reduce ----
def _convert_indices_from_coo_to_csr(input, size, *, out_int32=False):
    """Where each row begins, of row numbers in order."""
    rows = taper.arange(size + 1, dtype=input.dtype, device=input.device)
    return taper.searchsorted(input, rows, out_int32=out_int32)


def _convert_indices_from_csr_to_coo(crow_indices, col_indices, *, out_int32=False, transpose=False):
    """(row, column) of each element, as two rows; transpose: (column, row)."""
    dtype = taper.int32 if out_int32 else taper.int64
    rows = taper.arange(crow_indices.numel() - 1, device=crow_indices.device).repeat_interleave(
        crow_indices.diff().to(taper.int64)
    )
    pair = rows.to(dtype), col_indices.to(dtype)
    return taper.stack(pair[::-1] if transpose else pair)


def _segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    return taper.segment_reduce(
        data, reduce, lengths=lengths, indices=indices, offsets=offsets, axis=axis, unsafe=unsafe, initial=initial
    )


def _cast(dtype):
    def cast(input, non_blocking=False):
        return input.to(dtype, non_blocking=non_blocking)

    return cast


_cast_Byte, _cast_Char, _cast_Short, _cast_Int = map(_cast, (taper.uint8, taper.int8, taper.int16, taper.int32))
_cast_Long, _cast_Half, _cast_Float, _cast_Double = map(
    _cast, (taper.int64, taper.float16, taper.float32, taper.float64)
)


def _shape_as_tensor(input):
    """The shape as a row of integers."""
    return taper.tensor(input.shape, dtype=taper.int64)


def _nested_view_from_buffer(input, nested_size, nested_strides, offsets):
    """A nested tensor whose parts are views of a flat buffer."""
    from taper.nested._strided import wrap

    views = zip(nested_size.tolist(), nested_strides.tolist(), offsets.tolist())
    return wrap(input, [(tuple(size), tuple(strides), offset) for size, strides, offset in views])


def _grouped_mm(self, mat2, offs=None, bias=None, out_dtype=None):
    from taper.nn.functional import grouped_mm

    return grouped_mm(self, mat2, offs=offs, bias=bias, out_dtype=out_dtype)


# ---- Beneath torch.nested ----
def _nested_tensor_from_mask(t, mask, mask_check=True):
    """The rows of each t[i] where mask[i] is true; those are the first ones."""
    lengths = mask.sum(1)
    if mask_check and not bool(
        (mask == (taper.arange(mask.shape[1], device=mask.device) < lengths.unsqueeze(1))).all()
    ):
        raise RuntimeError("Mask must be left-aligned without gaps")
    return taper.nested.as_nested_tensor([row[:n] for row, n in zip(t.unbind(0), lengths.tolist())])


def _nested_from_padded(padded, cpu_nested_shape_example, fuse_transform_0213=False):
    """The parts of a padded tensor, of the sizes given."""
    parts = []
    for row, size in zip(padded.unbind(0), cpu_nested_shape_example.tolist()):
        row = row.transpose(0, 1).flatten(1) if fuse_transform_0213 else row
        parts.append(row[tuple(slice(n) for n in size)])
    return taper.nested.as_nested_tensor(parts)


def _nested_from_padded_and_nested_example(padded, nt_example):
    return _nested_from_padded(padded, nt_example._nested_tensor_size())


def _has_compatible_shallow_copy_type(input, other):
    """Can `input` take the place of `other`'s memory? Between devices it cannot."""
    return input.device.type == other.device.type and input.layout == other.layout


def _assert_async(input, assert_msg="Expected Tensor with single nonzero value, but got zero"):
    """An error where a tensor of one element is zero."""
    if input.numel() != 1:
        raise RuntimeError(
            "Boolean value of Tensor with more than one value is ambiguous"
            if input.numel()
            else "Boolean value of Tensor with no values is ambiguous"
        )
    if not input.item():
        raise RuntimeError(assert_msg)


# ---- Gradient scaling ----
def _amp_foreach_non_finite_check_and_unscale_(grads, found_inf, inv_scale):
    """Multiplies gradients in place, and sets found_inf to 1 where one was not finite."""
    from taper.amp.grad_scaler import _multiply

    for found in _multiply(grads, inv_scale).values():
        found_inf.copy_(taper.maximum(found_inf, found.to(found_inf.device)))


def _amp_update_scale_(scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval):
    """The next scale: lower after gradients that were not finite, higher after enough finite ones."""
    if found_inf.item():
        scale.mul_(backoff_factor)
        growth_tracker.zero_()
        return scale
    run = growth_tracker.item() + 1
    if run == growth_interval:
        grown = scale * growth_factor
        if grown.isfinite().all():
            scale.copy_(grown)
        run = 0
    growth_tracker.fill_(run)
    return scale


# ---- What PyTorch once had: the names are there, and say what took their place ----
def _removed(name, since, instead):
    def function(*args, **kwargs):
        raise RuntimeError(f"This function was deprecated since version {since} and is now removed. {instead}")

    function.__name__ = function.__qualname__ = name
    return function


eig = _removed(
    "eig",
    "1.9",
    "`torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real tensors mimicking "
    "complex tensors.",
)
symeig = _removed(
    "symeig",
    "1.9",
    "The default behavior has changed from using the upper triangular portion of the matrix by default to using the "
    "lower triangular portion.\n\n"
    "L, _ = torch.symeig(A, upper=upper) should be replaced with:\n"
    "L = torch.linalg.eigvalsh(A, UPLO='U' if upper else 'L')",
)
solve = _removed(
    "solve",
    "1.9",
    "`torch.solve` is deprecated in favor of `torch.linalg.solve`. `torch.linalg.solve` has its arguments reversed "
    "and does not return the LU factorization.",
)
lstsq = _removed(
    "lstsq",
    "1.9",
    "`torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`.\n"
    "`torch.linalg.lstsq` has reversed arguments and does not return the QR decomposition in the returned tuple "
    "(although it returns other information about the problem).",
)
matrix_rank = _removed(
    "matrix_rank",
    "1.9",
    "Please use the `torch.linalg.matrix_rank` function instead. The parameter 'symmetric' was renamed in "
    "torch.linalg.matrix_rank() to 'hermitian'.",
)


# ---- What PyTorch's own Python code asks of torch, under private names ----
def _native_batch_norm_legit(input, weight, bias, *rest):
    """native_batch_norm; without running statistics, three arguments follow."""
    return taper.native_batch_norm(input, weight, bias, *(rest if len(rest) == 5 else (None, None, *rest)))


def _chunk_cat(tensors, dim, num_chunks, *, out=None):
    """Each tensor filled up with zeros and cut into chunks along dim; the chunks of all, flattened, side by side."""
    if num_chunks < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    if dim < 0 and len({tensor.dim() for tensor in tensors}) > 1:
        raise RuntimeError("_chunk_cat expects non-negative dim when input tensors have different ndims")
    parts, dim = [], dim % tensors[0].dim()
    if any(tensor.shape[:dim] != tensors[0].shape[:dim] for tensor in tensors):
        raise RuntimeError("_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors")
    for tensor in tensors:
        size = -(-tensor.shape[dim] // num_chunks) * num_chunks
        filled = F.pad(tensor, (0, 0) * (tensor.dim() - 1 - dim) + (0, size - tensor.shape[dim]))
        parts.append(filled.reshape(*tensor.shape[:dim], num_chunks, -1))
    return taper.cat(parts, dim + 1) if out is None else taper.cat(parts, dim + 1, out=out)


def _inside(tensor, indices):
    """Indices that the mask leaves out may be out of range."""
    return [
        index if index is None or index.dtype is taper.bool else index.clamp(-tensor.shape[i], tensor.shape[i] - 1)
        for i, index in enumerate(indices)
    ]


def _unsafe_masked_index(self, mask, indices, fill):
    return self[tuple(slice(None) if index is None else index for index in _inside(self, indices))].masked_fill(
        ~mask, fill
    )


def _unsafe_masked_index_put_accumulate(self, mask, indices, values):
    return self.index_put([index for index in _inside(self, indices)], values.masked_fill(~mask, 0), accumulate=True)


def _infer_size(first, second):
    return taper.broadcast_shapes(first, second)


def _weight_int8pack_mm(input, mat2, scales):
    """input times the transpose of a matrix of bytes, whose rows have a scale each."""
    return _op["weight_only_product"](input, mat2, scales)


def _addmm_activation(self, mat1, mat2, *, beta=1, alpha=1, use_gelu=False, out=None):
    """addmm, and relu or gelu of it."""
    product = taper.addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    result = F.gelu(product, approximate="tanh") if use_gelu else product.relu()
    return result if out is None else out.copy_(result)


def hash_tensor(input, dim=(), *, keepdim=False, mode=0, out=None):
    """The exclusive or of the elements' bits over dims, or over all: of floating numbers as doubles, of the others as
    integers of 64 bits."""
    if mode != 0:
        raise RuntimeError(f"hash_tensor: expected mode 0, got {mode}")
    bits = input.double().view(taper.int64) if input.is_floating_point() else input.to(taper.int64)
    dims = [dim] if isinstance(dim, int) else list(dim) or list(range(input.dim()))
    for d in sorted((d % max(input.dim(), 1) for d in dims) if input.dim() else (), reverse=True):
        while bits.shape[d] > 1:
            half = bits.shape[d] // 2
            rest = bits.narrow(d, 2 * half, bits.shape[d] - 2 * half)
            bits = taper.cat([bits.narrow(d, 0, half) ^ bits.narrow(d, half, half), rest], d)
        bits = bits if bits.shape[d] else bits.new_zeros(*bits.shape[:d], 1, *bits.shape[d + 1 :])
        bits = bits if keepdim else bits.squeeze(d)
    result = bits.contiguous().view(taper.uint64)
    return result if out is None else out.copy_(result)
