"""Derivatives as operators: for each operator of aten, a formula per input. A formula's parameters say what it reads:
`grad` (of the first result), `grads` (of all), `result`, `result1` (results, detached), `mask` (which of the formula's
inputs need a gradient), or arguments of the schema by name; only what is read is kept, and of `self_shape`,
`self_dtype` and `self_device` not the tensor. Several inputs may share one formula, which then gives a tuple. The tape
sums down what was broadcast. `given_mask` is the argument named mask. An in-place form has the formula of its operator
if that reads neither self nor result."""

import math

import taper

aten = taper.ops.aten

# Operators whose results have no gradient, by aten's names: what a handler sees are aten's overloads, of which some are
# no operators here, and the formulas below are aten's too.
WITHOUT = frozenset(
    """detach detach_ ones_like zeros_like empty_like full_like rand_like randn_like randint_like new_zeros new_ones
    new_empty new_full new_empty_strided
eq ne lt le gt ge argmax argmin argsort isnan isinf isfinite sign sgn floor ceil round trunc logical_and logical_or
logical_xor logical_not bitwise_and bitwise_or
bitwise_xor bitwise_not any all nonzero equal allclose is_same_size _local_scalar_dense sym_size sym_numel sym_stride
sym_storage_offset count_nonzero bernoulli
multinomial searchsorted bucketize one_hot isclose is_pinned signbit resize_ set_ heaviside""".split()
)


def _zeros(grad):
    return aten.zeros_like(grad)


def _restore(grad, size, dim, keepdim):
    """A reduced gradient with its dims of size one back."""
    if keepdim or not size:
        return grad
    dims = [dim] if isinstance(dim, int) else dim or ()
    for d in dims if len(dims) == 1 else sorted(d % len(size) for d in dims):
        grad = grad.unsqueeze(d)
    return grad


def _sum_dims(grad, self_shape, dim, keepdim):
    return (_restore(grad, self_shape, dim, keepdim) if dim else grad).expand(self_shape)


def _mean_dims(grad, self_shape, dim, keepdim):
    dims = [dim] if isinstance(dim, int) else dim or range(len(self_shape))
    return aten.div.Scalar(
        _sum_dims(grad, self_shape, dim, keepdim), math.prod(self_shape[d] for d in dims) if self_shape else 1
    )


def _pick(grad, self_shape, dim, keepdim, indices):
    if self_shape and not keepdim:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return aten.new_zeros(grad, self_shape).scatter(dim, indices, grad) if self_shape else grad


def _extreme(grad, self, result):
    mask = self == result
    return mask * (grad / mask.sum())


def _pow_self(grad, self, exponent):
    return _zeros(grad) if exponent == 0 else grad * aten.mul.Scalar(self.pow(exponent - 1.0), float(exponent))


def _cat(grad, tensors, dim):
    grads, at = [], 0
    for t in tensors:
        if t.dim() == 1 and t.shape[0] == 0 and grad.dim() > 1:
            grads.append(taper.zeros_like(t))
            continue
        grads.append(grad.narrow(dim, at, t.shape[dim]))
        at += t.shape[dim]
    return grads


def _joined(grads, shape, dim, sizes):
    """Gradients of the parts of a tensor as one, where some may not have come."""
    dim %= len(shape)
    there = next(g for g in grads if g is not None)
    return taper.cat(
        [
            g if g is not None else aten.new_zeros(there, [*shape[:dim], n, *shape[dim + 1 :]])
            for g, n in zip(grads, sizes)
        ],
        dim,
    )


def _split(grads, self_shape, split_size, dim):
    whole = self_shape[dim]
    return _joined(grads, self_shape, dim, [min(split_size, whole - at) for at in range(0, whole, split_size)])


def _unbind(grads, dim):
    there = next(g for g in grads if g is not None)
    return taper.stack([g if g is not None else taper.zeros_like(there) for g in grads], dim)


def _permute(grad, dims):
    back = [0] * len(dims)
    for at, d in enumerate(dims):
        back[d % len(dims)] = at
    return grad.permute(back)


def _unsqueezed(grad, self_shape, dim):
    n = len(self_shape)
    dims = range(n) if dim is None else [d % n for d in ([dim] if isinstance(dim, int) else dim)] if n else []
    for d in sorted(dims):
        if self_shape[d] == 1:
            grad = grad.unsqueeze(d)
    return grad


def _is_turned(shape, stride):
    """Do the columns lie one after the other? Then the gradient shall, too."""
    return stride[0] == 1 and stride[1] == shape[0]


def _mm_self(grad, mat2, shape, stride):
    return mat2.conj().mm(grad.t()).t() if _is_turned(shape, stride) else grad.mm(mat2.t().conj())


def _mm_other(grad, self, shape, stride):
    return grad.t().mm(self.conj()).t() if _is_turned(shape, stride) else self.t().conj().mm(grad)


def _scaled(grad, factor):
    return grad if factor == 1 else aten.mul.Scalar(grad, factor)


def _var(grad, self, dim, correction, keepdim):
    dims = [dim] if isinstance(dim, int) else dim or list(range(self.dim()))
    n = math.prod(self.shape[d] for d in dims) - (1 if correction is None else correction)
    if dim is not None:
        grad = _restore(grad, self.shape, dims, keepdim)
    return (2.0 / n) * grad * (self - self.mean(dims, True))


def _std(grad, self, result, dim, correction, keepdim):
    return _var((grad / (result * 2)).masked_fill(result == 0, 0), self, dim, correction, keepdim)


def _repeat(grad, self_shape, repeats):
    extra = len(repeats) - len(self_shape)
    if extra:
        grad = grad.sum(list(range(extra)))
    shape = []
    for n, times in zip(self_shape, repeats[extra:]):
        shape += [times, n]
    return grad.reshape(shape).sum(list(range(0, 2 * len(self_shape), 2))) if self_shape else grad


_same = lambda grad: grad
_real_power = {"self": _pow_self}
_view = {"self": lambda grad, self_shape: grad.reshape(self_shape)}
_reduced = {"self": lambda grads, self_shape, dim, keepdim, result1: _pick(grads[0], self_shape, dim, keepdim, result1)}

DERIVATIVES = {
    "add": {"self": _same, "other": lambda grad, alpha: _scaled(grad, alpha)},
    "sub": {"self": _same, "other": lambda grad, alpha: -_scaled(grad, alpha)},
    "rsub": {"self": lambda grad, alpha: -_scaled(grad, alpha), "other": _same},
    "mul": {
        "self": lambda grad, other: grad * (other.conj() if isinstance(other, taper.Tensor) else other),
        "other": lambda grad, self: grad * self.conj(),
    },
    "div.Tensor": {
        "self": lambda grad, other: grad / other,
        "other": lambda grad, self, other: -grad * ((self / other) / other),
    },
    "div.Scalar": {"self": lambda grad, other: grad / other},
    "addcmul": {
        "self": _same,
        "tensor1": lambda grad, tensor2, value: grad * (tensor2 * value),
        "tensor2": lambda grad, tensor1, value: grad * (tensor1 * value),
    },
    "addcdiv": {
        "self": _same,
        "tensor1": lambda grad, tensor2, value: grad * (value / tensor2),
        "tensor2": lambda grad, tensor1, tensor2, value: -grad * (value * tensor1 / (tensor2 * tensor2)),
    },
    "lerp.Scalar": {"self": lambda grad, weight: grad * (1 - weight), "end": lambda grad, weight: grad * weight},
    "pow.Tensor_Scalar": _real_power,
    "pow.Tensor_Tensor": {
        "self": lambda grad, self, exponent: grad * (exponent * self.pow(exponent - 1)),
        "exponent": lambda grad, self, result: grad * (result * self.log()),
    },
    "pow.Scalar": {"exponent": lambda grad, self, result: grad * (result * math.log(self))},
    "maximum": {
        "self": lambda grad, self, other: grad.masked_fill(self < other, 0),
        "other": lambda grad, self, other: grad.masked_fill(self >= other, 0),
    },
    "minimum": {
        "self": lambda grad, self, other: grad.masked_fill(self > other, 0),
        "other": lambda grad, self, other: grad.masked_fill(self <= other, 0),
    },
    "atan2": {
        "self": lambda grad, self, other: grad * (other / (self * self + other * other)),
        "other": lambda grad, self, other: grad * (-self / (self * self + other * other)),
    },
    "neg": {"self": lambda grad: -grad},
    "abs": {"self": lambda grad, self: grad * self.sgn()},
    "exp": {"self": lambda grad, result: grad * result},
    "exp2": {"self": lambda grad, result: grad * result * math.log(2)},
    "expm1": {"self": lambda grad, result: grad * (result + 1)},
    "log": {"self": lambda grad, self: grad.div(self)},
    "log2": {"self": lambda grad, self: grad / (self * math.log(2))},
    "log10": {"self": lambda grad, self: grad / (self * math.log(10))},
    "log1p": {"self": lambda grad, self: grad / (self + 1)},
    "sqrt": {"self": lambda grad, result: grad / (2 * result)},
    "rsqrt": {"self": lambda grad, result: -0.5 * grad * result.pow(3)},
    "reciprocal": {"self": lambda grad, result: -grad * (result * result)},
    "sin": {"self": lambda grad, self: grad * self.cos()},
    "cos": {"self": lambda grad, self: grad * -self.sin()},
    "tan": {"self": lambda grad, result: grad * (1 + result.pow(2))},
    "sinh": {"self": lambda grad, self: grad * self.cosh()},
    "cosh": {"self": lambda grad, self: grad * self.sinh()},
    "asin": {"self": lambda grad, self: grad * (-self * self + 1).rsqrt()},
    "acos": {"self": lambda grad, self: grad * -((-self * self + 1).rsqrt())},
    "atan": {"self": lambda grad, self: grad / (self * self + 1)},
    "erf": {"self": lambda grad, self: 2 / math.sqrt(math.pi) * (-(self.pow(2))).exp() * grad},
    "tanh": {"self": lambda grad, result: aten.tanh_backward(grad, result)},
    "sigmoid": {"self": lambda grad, result: aten.sigmoid_backward(grad, result)},
    "relu": {"self": lambda grad, result: aten.threshold_backward(grad, result, 0)},
    "relu_": {"self": lambda grad, result: aten.threshold_backward(grad, result, 0)},
    "threshold": {"self": lambda grad, self, threshold: aten.threshold_backward(grad, self, threshold)},
    "gelu": {"self": lambda grad, self, approximate: aten.gelu_backward(grad, self, approximate=approximate)},
    "silu": {"self": lambda grad, self: aten.silu_backward(grad, self)},
    "leaky_relu": {
        "self": lambda grad, self, negative_slope: aten.leaky_relu_backward(grad, self, negative_slope, False)
    },
    "elu": {
        "self": lambda grad, self, alpha, scale, input_scale: aten.elu_backward(
            grad, alpha, scale, input_scale, False, self
        )
    },
    "hardtanh": {"self": lambda grad, self, min_val, max_val: aten.hardtanh_backward(grad, self, min_val, max_val)},
    "hardswish": {"self": lambda grad, self: aten.hardswish_backward(grad, self)},
    "hardsigmoid": {"self": lambda grad, self: aten.hardsigmoid_backward(grad, self)},
    "mish": {"self": lambda grad, self: aten.mish_backward(grad, self)},
    "softplus": {"self": lambda grad, self, beta, threshold: aten.softplus_backward(grad, self, beta, threshold)},
    "log_sigmoid_forward": {"self": lambda grads, self, result1: aten.log_sigmoid_backward(grads[0], self, result1)},
    "glu": {"self": lambda grad, self, dim: aten.glu_backward(grad, self, dim)},
    "clamp": {"self": lambda grad, self, min, max: grad * _inside(self, min, max)},
    "clamp_min": {"self": lambda grad, self, min: grad * (self >= min)},
    "clamp_max": {"self": lambda grad, self, max: grad * (self <= max)},
    "where.self": {
        "self": lambda grad, condition: taper.where(condition, grad, _zeros(grad)),
        "other": lambda grad, condition: taper.where(condition, _zeros(grad), grad),
    },
    "masked_fill.Scalar": {"self": lambda grad, given_mask: grad.masked_fill(given_mask, 0)},
    "sum": {"self": lambda grad, self_shape: grad.expand(self_shape)},
    "sum.dim_IntList": {"self": _sum_dims},
    "mean": {"self": lambda grad, self_shape: aten.div.Scalar(grad.expand(self_shape), math.prod(self_shape))},
    "mean.dim": {"self": _mean_dims},
    "prod": {"self": lambda grad, self, result: grad * (result / self)},
    "cumsum": {"self": lambda grad, dim: grad.flip(dim).cumsum(dim).flip(dim)},
    "logsumexp": {
        "self": lambda grad, self, dim, keepdim, result: (
            _restore(grad, self.shape, dim, keepdim) * (self - _restore(result, self.shape, dim, keepdim)).exp()
        )
    },
    "var.correction": {"self": _var},
    "std.correction": {"self": _std},
    "max": {"self": _extreme},
    "min": {"self": _extreme},
    "max.dim": _reduced,
    "min.dim": _reduced,
    "amax": {"self": lambda grad, self, dim, keepdim, result: _amax(grad, self, dim, keepdim, result)},
    "amin": {"self": lambda grad, self, dim, keepdim, result: _amax(grad, self, dim, keepdim, result)},
    "sort": {"self": lambda grads, self_shape, dim, result1: _pick(grads[0], self_shape, dim, True, result1)},
    "topk": {"self": lambda grads, self_shape, dim, result1: _pick(grads[0], self_shape, dim, True, result1)},
    "linalg_vector_norm": {
        "self": lambda grad, self, ord, dim, keepdim, result: _norm(grad, self, ord, dim, keepdim, result)
    },
    "mm": {
        "self": lambda grad, mat2, self_shape, self_stride: _mm_self(grad, mat2, self_shape, self_stride),
        "mat2": lambda grad, self, mat2_shape, mat2_stride: _mm_other(grad, self, mat2_shape, mat2_stride),
    },
    "addmm": {
        "self": lambda grad, beta: _scaled(grad, beta),
        "mat1": lambda grad, mat2, mat1_shape, mat1_stride, alpha: _scaled(
            _mm_self(grad, mat2, mat1_shape, mat1_stride), alpha
        ),
        "mat2": lambda grad, mat1, mat2_shape, mat2_stride, alpha: _scaled(
            _mm_other(grad, mat1, mat2_shape, mat2_stride), alpha
        ),
    },
    "bmm": {
        "self": lambda grad, mat2: grad.bmm(mat2.transpose(1, 2).conj()),
        "mat2": lambda grad, self: self.transpose(1, 2).conj().bmm(grad),
    },
    "baddbmm": {
        "self": lambda grad, beta: _scaled(grad, beta),
        "batch1": lambda grad, batch2, alpha: _scaled(grad.bmm(batch2.transpose(1, 2)), alpha),
        "batch2": lambda grad, batch1, alpha: _scaled(batch1.transpose(1, 2).bmm(grad), alpha),
    },
    "mv": {
        "self": lambda grad, vec: grad.unsqueeze(1) * vec.conj(),
        "vec": lambda grad, self: self.t().conj().mv(grad),
    },
    "dot": {"self": lambda grad, tensor: grad * tensor.conj(), "tensor": lambda grad, self: grad * self.conj()},
    "t": {"self": lambda grad: grad.t()},
    "transpose.int": {"self": lambda grad, dim0, dim1: grad.transpose(dim0, dim1)},
    "permute": {"self": _permute},
    "view": _view,
    "_unsafe_view": _view,
    "_reshape_alias": _view,
    "expand": {"self": _same},
    "repeat": {"self": _repeat},
    "squeeze": {"self": lambda grad, self_shape: _unsqueezed(grad, self_shape, None)},
    "squeeze.dim": {"self": _unsqueezed},
    "squeeze.dims": {"self": _unsqueezed},
    "unsqueeze": {"self": lambda grad, dim: grad.squeeze(dim)},
    "slice.Tensor": {
        "self": lambda grad, self_shape, dim, start, end, step: aten.slice_backward(
            grad, self_shape, dim, start or 0, 9223372036854775807 if end is None else end, step
        )
    },
    "select.int": {"self": lambda grad, self_shape, dim, index: aten.select_backward(grad, self_shape, dim, index)},
    "index.Tensor": {
        "self": lambda grad, self_shape, self_dtype, self_device, indices: _zeros_as(
            grad, self_shape, self_dtype, self_device
        ).index_put(tuple(indices), grad, accumulate=True)
    },
    "index_select": {
        "self": lambda grad, self_shape, dim, index: aten.new_zeros(grad, self_shape).index_add(dim, index, grad)
    },
    "gather": {
        "self": lambda grad, self_shape, dim, index: aten.new_zeros(grad, self_shape).scatter_add(dim, index, grad)
    },
    "scatter.src": {
        "self": lambda grad, dim, index: grad.scatter(dim, index, 0),
        "src": lambda grad, dim, index: grad.gather(dim, index),
    },
    "scatter_add": {"self": _same, "src": lambda grad, dim, index: grad.gather(dim, index)},
    "index_add": {
        "self": _same,
        "source": lambda grad, dim, index, alpha: _scaled(grad.index_select(dim, index), alpha),
    },
    "index_put": {
        "self": lambda grad, indices, values, accumulate: (
            grad if accumulate else grad.index_put(tuple(indices), _zeros(values), False)
        ),
        "values": lambda grad, indices: grad[tuple(indices)],
    },
    "flip": {"self": lambda grad, dims: grad.flip(dims)},
    "roll": {"self": lambda grad, shifts, dims: grad.roll([-s for s in shifts], dims)},
    "tril": {"self": lambda grad, diagonal: grad.tril(diagonal)},
    "triu": {"self": lambda grad, diagonal: grad.triu(diagonal)},
    "cat": {"tensors": _cat},
    "stack": {"tensors": lambda grad, tensors, dim: [grad.select(dim, i) for i in range(len(tensors))]},
    "split.Tensor": {"self": _split},
    "unbind.int": {"self": _unbind},
    "split_with_sizes": {
        "self": lambda grads, self_shape, split_sizes, dim: _joined(grads, self_shape, dim, split_sizes)
    },
    "constant_pad_nd": {"self": lambda grad, pad: taper.constant_pad_nd(grad, [-p for p in pad])},
    "clone": {"self": _same},
    "alias": {"self": _same},
    "lift_fresh": {"self": _same},
    "_to_copy": {
        "self": lambda grad, self_device, self_dtype: aten._to_copy(
            grad, dtype=self_dtype, layout=taper.strided, device=self_device
        )
    },
    "copy_": {"self": _zeros, "src": _same},
    "fill_.Scalar": {"self": _zeros},
    "zero_": {"self": _zeros},
    "real": {"self": _same},
    "_softmax": {
        "self": lambda grad, self_dtype, result, dim: aten._softmax_backward_data(grad, result, dim, self_dtype)
    },
    "_log_softmax": {
        "self": lambda grad, self_dtype, result, dim: aten._log_softmax_backward_data(grad, result, dim, self_dtype)
    },
    "nll_loss_forward": {
        "self": lambda grads, self, target, weight, reduction, ignore_index, result1: aten.nll_loss_backward(
            grads[0], self, target, weight, reduction, ignore_index, result1
        )
    },
    "nll_loss2d_forward": {
        "self": lambda grads, self, target, weight, reduction, ignore_index, result1: aten.nll_loss2d_backward(
            grads[0], self, target, weight, reduction, ignore_index, result1
        )
    },
    "mse_loss": {
        "self": lambda grad, self, target, reduction: aten.mse_loss_backward(grad, self, target, reduction),
        "target": lambda grad, self, target, reduction: aten.mse_loss_backward(grad, target, self, reduction),
    },
    "smooth_l1_loss": {
        "self": lambda grad, self, target, reduction, beta: aten.smooth_l1_loss_backward(
            grad, self, target, reduction, beta
        )
    },
    "huber_loss": {
        "self": lambda grad, self, target, reduction, delta: aten.huber_loss_backward(
            grad, self, target, reduction, delta
        )
    },
    "binary_cross_entropy": {
        "self": lambda grad, self, target, weight, reduction: aten.binary_cross_entropy_backward(
            grad, self, target, weight, reduction
        )
    },
    "binary_cross_entropy_with_logits": {
        "self": lambda grad, self, target, weight, pos_weight, reduction: _with_logits(
            grad, self, target, weight, pos_weight, reduction
        )
    },
    "_scaled_dot_product_flash_attention_for_cpu": {
        "query key value": lambda grads, query, key, value, dropout_p, is_causal, attn_mask, scale, result, result1: (
            aten._scaled_dot_product_flash_attention_for_cpu_backward(
                grads[0], query, key, value, result, result1, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
            )
        )
    },
    "embedding": {
        "weight": lambda grad, weight_shape, indices, padding_idx, scale_grad_by_freq: aten.embedding_dense_backward(
            grad, indices, weight_shape[0], padding_idx, scale_grad_by_freq
        )
    },
    "native_dropout": {
        "input": lambda grads, result1, p: aten.native_dropout_backward(
            grads[0], result1, 1 / (1 - p) if p != 1 else 0.0
        )
    },
    "native_layer_norm": {
        "input weight bias": lambda grads, input, normalized_shape, weight, bias, result1, result2, mask: (
            aten.native_layer_norm_backward(grads[0], input, normalized_shape, result1, result2, weight, bias, mask)
        )
    },
    "native_group_norm": {
        "input weight bias": lambda grads, input, weight, N, C, HxW, group, result1, result2, mask: (
            aten.native_group_norm_backward(grads[0], input, result1, result2, weight, N, C, HxW, group, mask)
        )
    },
    "native_batch_norm": {
        "input weight bias": lambda grads, input, weight, running_mean, running_var, training, eps, result1, result2, mask: (  # noqa: E501
            aten.native_batch_norm_backward(
                grads[0], input, weight, running_mean, running_var, result1, result2, training, eps, mask
            )
        )
    },
    "convolution": {
        "input weight bias": lambda grad, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, mask: (  # noqa: E501
            aten.convolution_backward(
                grad,
                input,
                weight,
                None if bias is None else list(bias.shape),
                stride,
                padding,
                dilation,
                transposed,
                output_padding,
                groups,
                mask,
            )
        )
    },
    "max_pool2d_with_indices": {
        "self": lambda grads, self, kernel_size, stride, padding, dilation, ceil_mode, result1: (
            aten.max_pool2d_with_indices_backward(
                grads[0], self, kernel_size, stride, padding, dilation, ceil_mode, result1
            )
        )
    },
    "avg_pool2d": {
        "self": lambda grad, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override: (
            aten.avg_pool2d_backward(
                grad, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
            )
        )
    },
    "_adaptive_avg_pool2d": {"self": lambda grad, self: aten._adaptive_avg_pool2d_backward(grad, self)},
}


def _zeros_as(grad, shape, dtype, device):
    return aten.new_zeros(grad, shape, dtype=dtype, layout=taper.strided, device=device)


def _inside(self, min, max):
    low = None if min is None else self >= min
    high = None if max is None else self <= max
    return low if high is None else high if low is None else low & high


def _amax(grad, self, dim, keepdim, result):
    grad, result = _restore(grad, self.shape, dim, keepdim), _restore(result, self.shape, dim, keepdim)
    mask = self == result
    return grad * mask / mask.sum(dim if dim else list(range(self.dim())), True)


def _norm(grad, self, ord, dim, keepdim, result):
    if dim is not None:
        grad, result = _restore(grad, self.shape, dim, keepdim), _restore(result, self.shape, dim, keepdim)
    if ord == 2:
        return (self * (grad / result)).masked_fill(result == 0, 0)
    if ord == 1:
        return self.sgn() * grad
    return self * self.abs().pow(ord - 2) * (grad / result.pow(ord - 1)).masked_fill(result == 0, 0)


def _with_logits(grad, self, target, weight, pos_weight, reduction):
    if pos_weight is None:
        made = (self.sigmoid() - target) * grad
    else:
        t = pos_weight * target
        made = ((t + 1 - target) * self.sigmoid() - t) * grad
    if weight is not None:
        made = made * weight
    return aten.div_.Scalar(made, self.numel()) if reduction == 1 else made
