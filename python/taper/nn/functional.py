"""torch.nn.functional: the operators of the table under PyTorch's names, and in Python where PyTorch's own signature is
wider than the operator's."""

from taper import _C
from taper._C import _functions as _op
from taper.nn._reduction import legacy_get_string

globals().update(_C._namespace("nn.functional"))


def _warn(text, stacklevel):
    import warnings

    warnings.warn(text, stacklevel=stacklevel + 1)


# ---- Tables, whose gradients may be sparse ----
def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of weight, by their numbers."""
    settings = padding_idx, max_norm, norm_type, scale_grad_by_freq
    if sparse and weight.requires_grad and _C.is_grad_enabled():
        from taper.sparse import _embedding_gradients

        return _embedding_gradients.embedding(input, weight, *settings)
    return _op["embedding"](input, weight, *settings)


def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """Sums, means or maxima of rows of weight, by bags of their numbers."""
    shared = max_norm, norm_type, scale_grad_by_freq, mode
    last = per_sample_weights, include_last_offset, padding_idx
    if sparse and weight.dtype is _C.int64 and input.is_floating_point():
        input, weight = weight, input  # the order of PyTorch's first versions
    if sparse and weight.requires_grad and _C.is_grad_enabled():
        from taper.sparse import _embedding_gradients

        return _embedding_gradients.embedding_bag(input, weight, offsets, *shared, *last)
    return _op["embedding_bag"](input, weight, offsets, *shared, False, *last)


# ---- Activations: `inplace` picks the operator's in-place form ----
def _activation(name, *parameters):
    plain, changing = _op[name], _op[name + "_"]
    arguments = "".join(f", {p}" for p in parameters)
    passed = "".join(f", {p.split('=')[0]}" for p in parameters)
    scope = {"plain": plain, "changing": changing, "__name__": __name__}
    exec(
        f"def {name}(input{arguments}, inplace=False):\n"
        f"    return changing(input{passed}) if inplace else plain(input{passed})\n",
        scope,
    )
    function = scope[name]
    function.__module__ = __name__
    function.__doc__ = plain.__doc__
    return function


relu = _activation("relu")
relu6 = _activation("relu6")
selu = _activation("selu")
silu = _activation("silu")
mish = _activation("mish")
hardsigmoid = _activation("hardsigmoid")
hardswish = _activation("hardswish")
leaky_relu = _activation("leaky_relu", "negative_slope=0.01")
elu = _activation("elu", "alpha=1.0")
celu = _activation("celu", "alpha=1.0")
threshold = _activation("threshold", "threshold", "value")
tanh, sigmoid = _op["tanh"], _op["sigmoid"]
globals().update({name: _op[name] for name in "relu_ elu_ hardtanh_ leaky_relu_ rrelu_ selu_ celu_ threshold_".split()})


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """interpolate under its first name."""
    _warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", 2)
    return interpolate(input, size, scale_factor, mode, align_corners)  # noqa: F821  (the operator's)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """Values kept between min_val and max_val."""
    if min_val > max_val:
        raise ValueError(f"min_val cannot be greater than max_val, got {min_val} and {max_val}")
    return _op["hardtanh_" if inplace else "hardtanh"](input, min_val, max_val)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """leaky_relu with a slope drawn for each negative element in training, the mean slope otherwise."""
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    out = _op["rrelu"](input, lower, upper, training)
    return input.copy_(out) if inplace else out


def _softmax_dim(name, ndim, stacklevel):
    """The dim that PyTorch's old callers mean by leaving it out."""
    _warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel + 1,
    )
    return 0 if ndim in (0, 1, 3) else 1


def _softmax(name):
    def function(input, dim=None, _stacklevel=3, dtype=None):
        return _op[name](input, _softmax_dim(name, input.dim(), _stacklevel - 1) if dim is None else dim, dtype=dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _op[name].__doc__
    return function


softmax, softmin, log_softmax = _softmax("softmax"), _softmax("softmin"), _softmax("log_softmax")


# ---- Dropout ----
def _check_probability(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _check_channels(name, dims):
    """dropout1d, 2d and 3d are for as many spatial dims, with channels and perhaps a batch."""
    space = int(name[7])
    if name == "dropout2d" and dims == 3:
        _warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is "
            "desired - input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will "
            "change in a future release to interpret the input as one without a batch dimension, i.e. shape (C, H, "
            "W). To maintain the 1D channel-wise dropout behavior, please switch to using dropout1d instead.",
            4,
        )
    elif dims not in (space + 1, space + 2):
        note = (
            f"Note that {name} exists to provide channel-wise dropout on inputs with {space} spatial "
            f"dimension{'s' if space > 1 else ''}, a channel dimension, and an optional batch dimension (i.e. "
            f"{space + 1}D or {space + 2}D inputs)."
        )
        if space == 1:
            raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {dims}D input. {note}")
        _warn(
            f"{name}: Received a {dims}-D input to {name}, which is deprecated and will result in an error in a "
            f"future release. To retain the behavior and silence this warning, please use dropout instead. {note}",
            4,
        )


def _dropout(name, training=True):
    operator, by_channel, trains = _op[name], name[-1] == "d", training

    def function(input, p=0.5, training=trains, inplace=False):
        _check_probability(p)
        if by_channel:
            _check_channels(name, input.dim())
        out = operator(input, p, training)
        return input.copy_(out) if inplace and training else out

    function.__name__ = function.__qualname__ = name
    function.__doc__ = operator.__doc__
    return function


dropout, alpha_dropout, feature_alpha_dropout = (
    _dropout("dropout"),
    _dropout("alpha_dropout", training=False),
    _dropout("feature_alpha_dropout", training=False),
)
dropout1d, dropout2d, dropout3d = _dropout("dropout1d"), _dropout("dropout2d"), _dropout("dropout3d")


# ---- Losses: size_average and reduce are the old way to say reduction ----
def _reduction(size_average, reduce, reduction):
    if size_average is None and reduce is None:
        if reduction not in ("mean", "sum", "none", "batchmean"):
            raise ValueError(f"{reduction} is not a valid value for reduction")
        return reduction
    meant = legacy_get_string(size_average, reduce, False)
    _warn(f"size_average and reduce args will be deprecated, please use reduction='{meant}' instead.", 3)
    return meant


def _check_sizes(input, target):
    """Broadcasting a loss is nearly always a mistake: (n, 1) against (n,) gives n * n differences."""
    if input.shape != target.shape:
        _warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            3,
        )


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    return _op["binary_cross_entropy"](input, target, weight, _reduction(size_average, reduce, reduction))


def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    return _op["binary_cross_entropy_with_logits"](
        input, target, weight, _reduction(size_average, reduce, reduction), pos_weight
    )


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    return _op["cosine_embedding_loss"](input1, input2, target, margin, _reduction(size_average, reduce, reduction))


def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    return _op["cross_entropy"](
        input, target, weight, ignore_index, _reduction(size_average, reduce, reduction), label_smoothing
    )


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    return _op["hinge_embedding_loss"](input, target, margin, _reduction(size_average, reduce, reduction))


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    reduction = _reduction(size_average, reduce, reduction)
    if reduction == "mean":
        _warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' "
            "divides only by the batch size, and aligns with the KL div math definition.'mean' will be changed to "
            "behave the same as 'batchmean' in the next major release.",
            2,
        )
    return _op["kl_div"](input, target, reduction, log_target)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    _check_sizes(input, target)
    return _op["l1_loss"](input, target, _reduction(size_average, reduce, reduction), weight)


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    _check_sizes(input, target)
    return _op["mse_loss"](input, target, _reduction(size_average, reduce, reduction), weight)


def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    return _op["margin_ranking_loss"](input1, input2, target, margin, _reduction(size_average, reduce, reduction))


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    return _op["multi_margin_loss"](input, target, p, margin, weight, _reduction(size_average, reduce, reduction))


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    return _op["multilabel_margin_loss"](input, target, _reduction(size_average, reduce, reduction))


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    return _op["multilabel_soft_margin_loss"](input, target, weight, _reduction(size_average, reduce, reduction))


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    return _op["nll_loss"](input, target, weight, ignore_index, _reduction(size_average, reduce, reduction))


def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"
):
    return _op["poisson_nll_loss"](input, target, log_input, full, eps, _reduction(size_average, reduce, reduction))


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    _check_sizes(input, target)
    return _op["smooth_l1_loss"](input, target, _reduction(size_average, reduce, reduction), beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Squared within delta, delta times absolute beyond."""
    _check_sizes(input, target)
    return _op["huber_loss"](input, target, reduction, delta, weight)


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    return _op["soft_margin_loss"](input, target, _reduction(size_average, reduce, reduction))


def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"
):
    return _op["triplet_margin_loss"](
        anchor, positive, negative, margin, p, eps, swap, _reduction(size_average, reduce, reduction)
    )


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """The triplet loss with any distance; pairwise_distance unless another function is given."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if distance_function is None:
        distance_function = _op["pairwise_distance"]
    near, far = distance_function(anchor, positive), distance_function(anchor, negative)
    if swap:
        far = _op["minimum"](far, distance_function(positive, negative))
    loss = _op["clamp_min"](margin + near - far, 0)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def linear_cross_entropy(
    input,
    linear_weight,
    target,
    *,
    linear_bias=None,
    weight=None,
    reduction="mean",
    ignore_index=None,
    label_smoothing=0.0,
    options=None,
):
    return _op["linear_cross_entropy"](
        input, linear_weight, target, linear_bias, weight, reduction, ignore_index, label_smoothing
    )


def _check_groups(mat_a, mat_b, offs, bias, out_dtype):
    """What PyTorch refuses of a grouped product."""
    names = {_C.float32: "Float", _C.bfloat16: "BFloat16", _C.float16: "Half", _C.float64: "Double"}
    name_a, name_b = (names.get(m.dtype, str(m.dtype)[6:].capitalize()) for m in (mat_a, mat_b))
    if mat_a.dtype != mat_b.dtype:
        raise RuntimeError(f"Expected mat_a and mat_b to have the same dtype, got {name_a} and {name_b}")
    if mat_a.dtype not in (_C.float32, _C.bfloat16, _C.float16):
        raise RuntimeError(f"Expected mat_a to be Float32, BFloat16 or Float16 matrix, got {name_a}")
    for name, matrix in (("mat_a", mat_a), ("mat_b", mat_b)):
        if matrix.dim() not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    if (mat_a.dim() == 2 or mat_b.dim() == 2) != (offs is not None):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if mat_a.shape[-1] != mat_b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if offs is not None and offs.dtype != _C.int32:
        raise RuntimeError("Offsets have to be int32")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype != mat_a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """A product per group. Of a 2d matrix `offs` tells where each group ends: rows of mat_a, columns of mat_b, or,
    where both are 2d, the dimension that is summed. What lies behind the last group is zero, where PyTorch leaves it
    unset."""
    _check_groups(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return mat_a @ mat_b
    ends = offs.tolist()
    groups = [slice(start, end) for start, end in zip([0, *ends], ends)]
    if mat_a.dim() == mat_b.dim():
        return _op["stack"]([mat_a[:, group] @ mat_b[group] for group in groups])
    if mat_a.dim() == 2:
        parts = [mat_a[group] @ matrix for group, matrix in zip(groups, mat_b)]
        rest = mat_a.new_zeros(mat_a.shape[0] - ends[-1], mat_b.shape[-1])
        return _op["cat"]([*parts, rest])
    parts = [matrix @ mat_b[:, group] for group, matrix in zip(groups, mat_a)]
    rest = mat_a.new_zeros(mat_a.shape[1], mat_b.shape[-1] - ends[-1])
    return _op["cat"]([*parts, rest], -1)


# ---- Pooling: return_indices picks between two operators ----
def _max_pool(dims):
    plain, indexed = _op[f"max_pool{dims}d"], _op[f"max_pool{dims}d_with_indices"]

    def with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        return tuple(indexed(input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode))

    def pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        if return_indices:
            return with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
        return plain(input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode)

    pool.__name__ = pool.__qualname__ = f"max_pool{dims}d"
    with_indices.__name__ = with_indices.__qualname__ = f"max_pool{dims}d_with_indices"
    pool.__doc__ = plain.__doc__
    return pool, with_indices


max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)


def _sizes(value, dims, input):
    """One number for all dims; None keeps the input's size."""
    if hasattr(value, "__index__"):  # also NumPy's integers and tensors of one
        value = int(value)
    if dims > 1 and not isinstance(value, int) and value is not None and input.dim() <= len(value):
        raise ValueError(f"Input dimension should be at least {len(value) + 1}")
    if dims > 1 and input.dim() not in (dims + 1, dims + 2):
        raise RuntimeError(f"Expected {dims + 1}D or {dims + 2}D tensor, but got {list(input.shape)}")
    value = [value] * dims if isinstance(value, int) or value is None else list(value)
    if len(value) != dims:
        raise RuntimeError(
            f"output_size must be {dims}, got {len(value)} sizes: output_size must either be a single int or have one "
            "for each dim"
        )
    return [input.shape[i - dims] if v is None else v for i, v in enumerate(value)]


def _adaptive(dims):
    plain, average, indexed = (
        _op[f"adaptive_max_pool{dims}d"],
        _op[f"adaptive_avg_pool{dims}d"],
        _op["adaptive_max_pool"],
    )

    def with_indices(input, output_size, return_indices=False):
        return tuple(indexed(input, _sizes(output_size, dims, input), dims))

    def maximum(input, output_size, return_indices=False):
        if return_indices:
            return with_indices(input, output_size)
        return plain(input, _sizes(output_size, dims, input))

    def mean(input, output_size):
        return average(input, _sizes(output_size, dims, input))

    for function, name in (
        (maximum, f"adaptive_max_pool{dims}d"),
        (with_indices, f"adaptive_max_pool{dims}d_with_indices"),
        (mean, f"adaptive_avg_pool{dims}d"),
    ):
        function.__name__ = function.__qualname__ = name
    return maximum, with_indices, mean


adaptive_max_pool1d, adaptive_max_pool1d_with_indices, _ = _adaptive(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices, adaptive_avg_pool2d = _adaptive(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices, adaptive_avg_pool3d = _adaptive(3)


def _fractional(dims):
    indexed = _op["fractional_max_pool"]

    def with_indices(
        input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
    ):
        if not isinstance(kernel_size, int) and len(kernel_size) != dims:
            raise RuntimeError(
                f"fractional_max_pool{dims}d: kernel_size must either be a single int or tuple of "
                f"{'two' if dims == 2 else 'three'} ints"
            )
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"fractional_max_pool{dims}d requires specifying either an output_size or an output_ratio")
        if output_size is None:
            ratio = [output_ratio] * dims if isinstance(output_ratio, (int, float)) else output_ratio
            output_size = [int(input.shape[i - dims] * r) for i, r in enumerate(ratio)]
        if _random_samples is None:
            batch = 1 if input.dim() == dims + 1 else input.shape[0]
            _random_samples = _op["rand"](batch, input.shape[-dims - 1], dims, dtype=input.dtype, device=input.device)
        kernel = [kernel_size] * dims if isinstance(kernel_size, int) else kernel_size
        return tuple(indexed(input, kernel, _sizes(output_size, dims, input), _random_samples, dims))

    def pool(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        both = with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)
        return both if return_indices else both[0]

    pool.__name__ = pool.__qualname__ = f"fractional_max_pool{dims}d"
    with_indices.__name__ = with_indices.__qualname__ = f"fractional_max_pool{dims}d_with_indices"
    return pool, with_indices


fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional(3)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    return _op["lp_pool1d"](input, norm_type, kernel_size, [] if stride is None else stride, ceil_mode)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    return _op["lp_pool2d"](input, norm_type, kernel_size, [] if stride is None else stride, ceil_mode)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    return _op["lp_pool3d"](input, norm_type, kernel_size, [] if stride is None else stride, ceil_mode)


# ---- Windows, sizes, sampling ----
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Sliding blocks as columns; the method of that name is another operator."""
    return _op["im2col"](input, kernel_size, dilation, padding, stride)


def _corners(align_corners):
    if align_corners is None:
        _warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
            "details.",
            3,
        )
    return bool(align_corners)


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    return _op["grid_sample"](input, grid, mode, padding_mode, _corners(align_corners))


def affine_grid(theta, size, align_corners=None):
    return _op["affine_grid"](theta, list(size), _corners(align_corners))


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    result = _op["normalize"](input, p, dim, eps)
    if out is None:
        return result
    return out.resize_(result.shape).copy_(result)


# ---- Attention ----
def _in_projection(q, k, v, weight, bias):
    """One matrix holds the three projections, one below the other."""
    e = q.shape[-1]
    if k is v and q is k:
        return linear(q, weight, bias).chunk(3, -1)
    parts = weight.split(e), (None, None, None) if bias is None else bias.split(e)
    return tuple(linear(x, w, b) for x, w, b in zip((q, k, v), *parts))


def _additive(mask, dtype):
    """A mask where True means "not here" becomes one to add."""
    if mask is None or mask.dtype != _C.bool:
        return mask
    return _op["zeros_like"](mask, dtype=dtype).masked_fill_(mask, float("-inf"))


def _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Do the numbers of dimensions go together? Is there a batch?"""
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    dims = query.dim()
    what = f"For {'batched' if dims == 3 else 'unbatched'} ({dims}-D) `query`, expected"
    if key.dim() != dims or value.dim() != dims:
        raise AssertionError(
            f"{what} `key` and `value` to be {dims}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != dims - 1:
        raise AssertionError(
            f"{what} `key_padding_mask` to be `None` or {dims - 1}-D but found {key_padding_mask.dim()}-D tensor "
            "instead"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"{what} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None and dims == 2 and attn_mask.dim() == 3:
        wanted = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != wanted:
            raise AssertionError(f"Expected `attn_mask` shape to be {wanted} but got {attn_mask.shape}")
    for name, mask in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
        if mask is not None and mask.dtype is not _C.bool and not mask.is_floating_point():
            raise AssertionError(f"only bool and floating types of {name} are supported")
    return dims == 3


def _check_padding_mask(mask, batch, source):
    for i, expected in enumerate((batch, source)):
        if mask.shape[i] != expected:
            raise AssertionError(f"Expected key_padded_mask.shape[{i}] to be {expected}, but got {mask.shape[i]}")


def _check_attention_mask(mask, target, source, heads):
    wanted = (target, source) if mask.dim() == 2 else (heads, target, source)
    if tuple(mask.shape) != wanted:
        raise RuntimeError(f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {wanted}.")


def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """Attention over several heads; query, key and value are (length, batch, embedding), or without the batch."""
    batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    target, batch, embed = query.shape
    if embed != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed}")
    head = embed // num_heads
    if head * num_heads != embed:
        raise AssertionError(f"embed_dim {embed} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
            )
    elif key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    if attn_mask is not None:
        _check_attention_mask(attn_mask, target, key.shape[0], batch * num_heads)
    if use_separate_proj_weight:
        bias = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
        q, k, v = (
            linear(query, q_proj_weight, bias[0]),
            linear(key, k_proj_weight, bias[1]),
            linear(value, v_proj_weight, bias[2]),
        )
    else:
        q, k, v = _in_projection(query, key, value, in_proj_weight, in_proj_bias)
    attn_mask, key_padding_mask = _additive(attn_mask, q.dtype), _additive(key_padding_mask, q.dtype)
    if attn_mask is not None and attn_mask.dim() == 2:
        attn_mask = attn_mask.unsqueeze(0)
    if bias_k is not None and bias_v is not None:
        if static_k is not None:
            raise AssertionError("bias cannot be added to static key.")
        if static_v is not None:
            raise AssertionError("bias cannot be added to static value.")
        k, v = _op["cat"]([k, bias_k.repeat(1, batch, 1)]), _op["cat"]([v, bias_v.repeat(1, batch, 1)])
        attn_mask = None if attn_mask is None else pad(attn_mask, (0, 1))
        key_padding_mask = None if key_padding_mask is None else pad(key_padding_mask, (0, 1))
    q = q.reshape(target, batch * num_heads, head).transpose(0, 1)
    k = k.reshape(k.shape[0], batch * num_heads, head).transpose(0, 1) if static_k is None else static_k
    v = v.reshape(v.shape[0], batch * num_heads, head).transpose(0, 1) if static_v is None else static_v
    if add_zero_attn:
        zero = _op["zeros"](batch * num_heads, 1, head, dtype=k.dtype, device=k.device)
        k, v = _op["cat"]([k, zero], dim=1), _op["cat"]([v, zero], dim=1)
        attn_mask = None if attn_mask is None else pad(attn_mask, (0, 1))
        key_padding_mask = None if key_padding_mask is None else pad(key_padding_mask, (0, 1))
    source = k.shape[1]
    if key_padding_mask is not None:
        _check_padding_mask(key_padding_mask, batch, source)
        padding = (
            key_padding_mask.view(batch, 1, 1, source)
            .expand(-1, num_heads, -1, -1)
            .reshape(batch * num_heads, 1, source)
        )
        attn_mask = padding if attn_mask is None else attn_mask + padding
    if not training:
        dropout_p = 0.0
    weights = None
    if need_weights:
        scores = _op["bmm"](q * (head**-0.5), k.transpose(-2, -1))
        weights = softmax(scores if attn_mask is None else scores + attn_mask, dim=-1)
        if dropout_p > 0.0:
            weights = dropout(weights, p=dropout_p)
        out = _op["bmm"](weights, v).transpose(0, 1).reshape(target * batch, embed)
    else:
        if attn_mask is not None:
            attn_mask = (
                attn_mask.unsqueeze(0) if attn_mask.shape[0] == 1 else attn_mask.view(batch, num_heads, -1, source)
            )
        shape = (batch, num_heads, source, head)
        out = scaled_dot_product_attention(
            q.reshape(batch, num_heads, target, head), k.reshape(shape), v.reshape(shape), attn_mask, dropout_p
        )
        out = out.permute(2, 0, 1, 3).reshape(target * batch, embed)
    out = linear(out, out_proj_weight, out_proj_bias).view(target, batch, embed)
    if weights is not None:
        weights = weights.view(batch, num_heads, target, source)
        weights = weights.mean(dim=1) if average_attn_weights else weights
        weights = weights if batched else weights.squeeze(0)
    return (out if batched else out.squeeze(1)), weights


# ---- Stand-ins, such as torch.fx's, see the call itself, not what the function does with them ----
for _name, _function in list(globals().items()):
    if type(_function) is type(_sizes) and _name[0] != "_":
        globals()[_name] = _C._Asking(_function)


def __getattr__(name):
    if name == "grad":
        from taper.nn import grad

        return grad
    if name in ("ScalingType", "SwizzleType", "scaled_mm"):
        from taper import _scaled

        return getattr(_scaled, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
