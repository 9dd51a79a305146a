"""Batch normalisation folded into the layer before it, for eval."""

from copy import deepcopy

from taper._C import _functions as _op
from taper.nn.parameter import Parameter


def _check_eval(layer, bn):
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def _fused(weight, bias, scale, mean, shift, shape):
    """Parameters of (weight x + bias - mean) scale + shift, in the dtypes they had."""
    weight_dtype, bias_dtype = weight.dtype, weight.dtype if bias is None else bias.dtype
    bias = _op["zeros_like"](mean) if bias is None else bias
    return (
        Parameter((weight * scale.reshape(shape)).to(weight_dtype), weight.requires_grad),
        Parameter(((bias - mean) * scale + shift).to(bias_dtype), bias.requires_grad),
    )


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """The weight and bias of a convolution that does the normalisation as well."""
    scale = _op["rsqrt"](bn_rv + bn_eps)
    scale = scale if bn_w is None else bn_w * scale
    shift = _op["zeros_like"](bn_rm) if bn_b is None else bn_b
    shape = [1, -1] if transpose else [-1, 1]
    return _fused(conv_w, conv_b, scale, bn_rm, shift, shape + [1] * (conv_w.dim() - 2))


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A copy of the convolution that does the normalisation as well."""
    _check_eval(conv, bn)
    fused = deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """The weight and bias of a linear layer that does the normalisation as well."""
    return _fused(linear_w, linear_b, bn_w * _op["rsqrt"](bn_rv + bn_eps), bn_rm, bn_b, [-1, 1])


def fuse_linear_bn_eval(linear, bn):
    """A copy of the linear layer that does the normalisation as well."""
    _check_eval(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got linear.out_features="
            f"{linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        linear.weight, linear.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused
