"""Operators of aten whose arguments differ from those of the function that does their work, or that only PyTorch's own
backward calls."""

import taper
from taper import _C
from taper.nn import functional as F

KERNELS = {}
builtin_slice = slice
_REDUCTIONS = "none", "mean", "sum"


def kernel(function):
    KERNELS[function.__name__] = function
    return function


def _pullback(forward, input, grad):
    """The gradient of forward at input. It is below the transforms that torch.func runs in, if any."""
    levels = _C._enter_transform(0)
    _C._enter_transform(-levels)
    try:
        with taper.enable_grad():
            leaf = input.detach().requires_grad_()
            return taper.autograd.grad(forward(leaf), leaf, grad)[0]
    finally:
        _C._enter_transform(levels)


# ---- Moving and reading ----
@kernel
def _to_copy(input, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    made = input.to(device=device or input.device, dtype=dtype or input.dtype, non_blocking=non_blocking, copy=True)
    return made if memory_format is None else made.contiguous(memory_format=memory_format)


@kernel
def _unsafe_view(input, size):
    return input.view(size)


@kernel
def _reshape_alias(input, size, stride):
    return input.as_strided(size, stride)


@kernel
def slice(self, dim=0, start=None, end=None, step=1):
    index = [builtin_slice(None)] * self.dim()
    index[dim] = builtin_slice(start, end, step)
    return self[tuple(index)]


@kernel
def slice_backward(grad_output, input_sizes, dim, start, end, step):
    made = grad_output.new_zeros(input_sizes)
    slice(made, dim, start, end, step).copy_(grad_output)
    return made


@kernel
def select_backward(grad_output, input_sizes, dim, index):
    made = grad_output.new_zeros(input_sizes)
    made.select(dim, index).copy_(grad_output)
    return made


@kernel
def lift_fresh_copy(input):
    return input.clone()


@kernel
def lift_fresh(input):
    return input


@kernel
def lift(input):
    return input


@kernel
def _pin_memory(input, device=None):
    return input.pin_memory()


@kernel
def _local_scalar_dense(input):
    return input.item()


@kernel
def _is_all_true(input):
    return input.all()


@kernel
def _is_any_true(input):
    return input.any()


@kernel
def sym_size(input, dim=None):
    return input.size() if dim is None else input.size(dim)


@kernel
def sym_numel(input):
    return input.numel()


@kernel
def sym_stride(input, dim=None):
    return input.stride() if dim is None else input.stride(dim)


@kernel
def sym_storage_offset(input):
    return input.storage_offset()


# ---- Activations ----
@kernel
def _softmax(input, dim, half_to_float):
    return input.softmax(dim, dtype=taper.float32 if half_to_float else None)


@kernel
def _log_softmax(input, dim, half_to_float):
    return input.log_softmax(dim, dtype=taper.float32 if half_to_float else None)


@kernel
def _softmax_backward_data(grad_output, output, dim, input_dtype):
    share = grad_output * output
    return (share - output * share.sum(dim, keepdim=True)).to(input_dtype)


@kernel
def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


@kernel
def threshold_backward(grad_output, input, threshold):
    return grad_output.masked_fill(input <= threshold, 0)


@kernel
def sigmoid_backward(grad_output, output):
    return grad_output * output * (1 - output)


@kernel
def tanh_backward(grad_output, output):
    return grad_output * (1 - output * output)


@kernel
def silu_backward(grad_output, input):
    gate = input.sigmoid()
    return grad_output * gate * (1 + input * (1 - gate))


@kernel
def gelu_backward(grad_output, input, *, approximate="none"):
    return _pullback(lambda x: F.gelu(x, approximate=approximate), input, grad_output)


@kernel
def leaky_relu_backward(grad_output, input, negative_slope, self_is_result):
    return taper.where(input > 0, grad_output, grad_output * negative_slope)


@kernel
def elu(self, alpha=1, scale=1, input_scale=1):
    return taper.where(self > 0, self * scale, (self * input_scale).expm1() * (alpha * scale))


@kernel
def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    low = (
        (self_or_result + alpha * scale) * input_scale
        if is_result
        else (self_or_result * input_scale).exp() * (alpha * scale * input_scale)
    )
    return grad_output * taper.where(self_or_result > 0, taper.full_like(low, scale), low)


@kernel
def hardtanh_backward(grad_output, input, min_val, max_val):
    return grad_output.masked_fill((input <= min_val) | (input >= max_val), 0)


@kernel
def hardswish_backward(grad_output, input):
    return _pullback(F.hardswish, input, grad_output)


@kernel
def hardsigmoid_backward(grad_output, input):
    return _pullback(F.hardsigmoid, input, grad_output)


@kernel
def mish_backward(grad_output, input):
    return _pullback(F.mish, input, grad_output)


@kernel
def softplus_backward(grad_output, input, beta, threshold):
    return _pullback(lambda x: F.softplus(x, beta, threshold), input, grad_output)


@kernel
def log_sigmoid_forward(input):
    return F.logsigmoid(input), input.new_zeros(0)


@kernel
def log_sigmoid_backward(grad_output, input, buffer):
    return grad_output * (-input).sigmoid()


@kernel
def glu_backward(grad_output, input, dim):
    return _pullback(lambda x: F.glu(x, dim), input, grad_output)


# ---- Dropout ----
@kernel
def native_dropout(input, p, train):
    if not train:
        return input.clone(), taper.ones_like(input, dtype=taper.bool)
    mask = taper.empty_like(input).bernoulli_(1 - p)
    return input * mask * (1 / (1 - p) if p != 1 else 0.0), mask.bool()


@kernel
def native_dropout_backward(grad_output, mask, scale):
    return grad_output * mask * scale


# ---- Losses ----
@kernel
def nll_loss_forward(self, target, weight, reduction, ignore_index):
    loss = F.nll_loss(self, target, weight, ignore_index=ignore_index, reduction=_REDUCTIONS[reduction])
    counted = target != ignore_index
    if reduction == 0:
        return loss, self.new_zeros(())
    total = counted.sum() if weight is None else weight[target.masked_fill(counted.logical_not(), 0)].mul(counted).sum()
    return loss, total.to(self.dtype)


@kernel
def nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    return _pullback(
        lambda x: F.nll_loss(x, target, weight, ignore_index=ignore_index, reduction=_REDUCTIONS[reduction]),
        self,
        grad_output,
    )


KERNELS["nll_loss2d_forward"], KERNELS["nll_loss2d_backward"] = nll_loss_forward, nll_loss_backward


def _loss(function, *words):
    """An operator of aten whose reduction is a number, by the function that takes a word."""

    def forward(self, target, *args, **kwargs):
        given = dict(zip(words, args), **kwargs)
        given["reduction"] = _REDUCTIONS[given.get("reduction", 1)]
        return function(self, target, **given)

    def backward(grad_output, self, target, *args, **kwargs):
        given = dict(zip(words, args), **kwargs)
        given["reduction"] = _REDUCTIONS[given.get("reduction", 1)]
        return _pullback(lambda x: function(x, target, **given), self, grad_output)

    return forward, backward


for _name, _words in {
    "mse_loss": ("reduction",),
    "smooth_l1_loss": ("reduction", "beta"),
    "huber_loss": ("reduction", "delta"),
    "binary_cross_entropy": ("weight", "reduction"),
    "soft_margin_loss": ("reduction",),
    "l1_loss": ("reduction",),
    "multilabel_margin_loss": ("reduction",),
}.items():
    KERNELS[_name], KERNELS[_name + "_backward"] = _loss(getattr(F, _name), *_words)


@kernel
def binary_cross_entropy_with_logits(self, target, weight=None, pos_weight=None, reduction=1):
    return F.binary_cross_entropy_with_logits(
        self, target, weight, pos_weight=pos_weight, reduction=_REDUCTIONS[reduction]
    )


@kernel
def cross_entropy_loss(self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    return F.cross_entropy(
        self,
        target,
        weight,
        ignore_index=ignore_index,
        reduction=_REDUCTIONS[reduction],
        label_smoothing=label_smoothing,
    )


@kernel
def nll_loss_nd(self, target, weight=None, reduction=1, ignore_index=-100):
    return F.nll_loss(self, target, weight, ignore_index=ignore_index, reduction=_REDUCTIONS[reduction])


KERNELS["nll_loss"] = KERNELS["nll_loss2d"] = nll_loss_nd


# ---- Layers ----
@kernel
def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return F.embedding(
        indices,
        weight,
        None if padding_idx == -1 else padding_idx,
        scale_grad_by_freq=scale_grad_by_freq,
        sparse=sparse,
    )


def _masked(made, mask):
    return tuple(grad if wanted else None for grad, wanted in zip(made, mask))


@kernel
def native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    return _masked(
        _C._functions["native_layer_norm_backward"](grad_out, input, normalized_shape, mean, rstd, weight, bias),
        output_mask,
    )


@kernel
def native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask):
    return _masked(
        _C._functions["native_group_norm_backward"](grad_out, input, mean, rstd, weight, weight, N, C, HxW, group),
        output_mask,
    )


def _pullback_of(forward, inputs, grad, mask):
    """Gradients of those inputs that the mask wants."""
    with taper.enable_grad():
        leaves = [t.detach().requires_grad_() if wanted and t is not None else t for t, wanted in zip(inputs, mask)]
        wanted = [t for t, m in zip(leaves, mask) if m and t is not None]
        made = iter(taper.autograd.grad(forward(*leaves), wanted, grad))
        return tuple(next(made) if m and t is not None else None for t, m in zip(leaves, mask))


@kernel
def native_batch_norm_backward(
    grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
):
    bias = None if weight is None else taper.zeros_like(weight)
    return _pullback_of(
        lambda x, w, b: F.batch_norm(
            x, None if train else running_mean, None if train else running_var, w, b, train, 0.0, eps
        ),
        (input, weight, bias),
        grad_out,
        output_mask,
    )


@kernel
def avg_pool2d_backward(
    grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
):
    return _pullback(
        lambda x: F.avg_pool2d(
            x, kernel_size, stride or kernel_size, padding, ceil_mode, count_include_pad, divisor_override
        ),
        self,
        grad_output,
    )


@kernel
def _adaptive_avg_pool2d(self, output_size):
    return F.adaptive_avg_pool2d(self, output_size)


@kernel
def native_channel_shuffle(self, groups):
    return F.channel_shuffle(self, groups)


# ---- Attention ----
@kernel
def _scaled_dot_product_flash_attention_for_cpu(
    query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None
):
    if dropout_p:
        raise RuntimeError("scaled_dot_product_flash_attention: Currently do not support dropout > 0")
    factor = query.size(-1) ** -0.5 if scale is None else scale
    out = F.scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale)
    wide = taper.float32 if query.dtype.itemsize == 2 else query.dtype
    scores = query.to(wide) @ key.transpose(-2, -1).to(wide) * factor
    if is_causal:
        keep = taper.ones(scores.shape[-2:], dtype=taper.bool, device=scores.device).tril()
        scores = scores.masked_fill(~keep, float("-inf"))
    if attn_mask is not None:
        scores = (
            scores.masked_fill(attn_mask.logical_not(), float("-inf"))
            if attn_mask.dtype == taper.bool
            else scores + attn_mask
        )
    with taper.no_grad():  # PyTorch gives these no gradient
        sums = scores.logsumexp(-1)
    return out, sums.transpose(-2, -1).contiguous().transpose(-2, -1)


@kernel
def _scaled_dot_product_flash_attention_for_cpu_backward(
    grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None
):
    return _pullback_of(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal, scale=scale),
        (query, key, value),
        grad_out,
        (True,) * 3,
    )
