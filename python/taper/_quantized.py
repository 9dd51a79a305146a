"""Quantized tensors: whole numbers with a scale and a zero point, value = scale * (number - zero point). They are
stored and turned back into floats; what computes with them (taper.ao.nn.quantized) takes them apart."""

import taper
from taper import _C
from taper._C import Tensor
from taper.overrides import DisableTorchFunctionSubclass


class _Named:
    """A constant of torch's that prints as its name."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"torch.{self._name}"

    def __reduce__(self):
        return _constant, (self._name,)


def _constant(name):
    return globals()[name]


from taper._C import qint8, qint32, quint8  # noqa: E402

_WORDS = {qint8: "QInt8", quint8: "QUInt8", qint32: "QInt32"}
_STORAGE = {qint8: _C.int8, quint8: _C.uint8, qint32: _C.int32}
per_tensor_affine, per_tensor_symmetric = _Named("per_tensor_affine"), _Named("per_tensor_symmetric")
_ENDS = {qint8: (-128, 127), quint8: (0, 255), qint32: (-(2**31), 2**31 - 1)}


class Quantized(Tensor):
    """Made by quantize_per_tensor; in memory it is its whole numbers."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func.__name__ in (
            "__get__",
            "__set__",
            "dim",
            "size",
            "numel",
            "__hash__",
            "is_contiguous",
            "element_size",
            "stride",
        ):
            with DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        raise NotImplementedError(
            f"Could not run 'aten::{func.__name__}' with arguments from the 'QuantizedCPU' backend: "
            "Tensor.dequantize() gives a tensor that has it."
        )

    dtype = property(lambda self: self._kind)
    is_quantized = True

    def __dlpack__(self, **options):
        raise BufferError(f"{_WORDS[self._kind]} types are not supported by dlpack")

    def int_repr(self):
        with DisableTorchFunctionSubclass():
            return self.as_subclass(Tensor)

    def dequantize(self):
        return (self.int_repr().to(_C.float32) - self._zero_point) * self._scale

    def q_scale(self):
        return self._scale

    def q_zero_point(self):
        return self._zero_point

    def qscheme(self):
        return per_tensor_affine

    def __reduce_ex__(self, protocol):
        return _made, (self.int_repr(), self._scale, self._zero_point, self._kind)

    def __deepcopy__(self, memo):
        return _made(self.int_repr().clone(), self._scale, self._zero_point, self._kind)

    def __repr__(self, *, tensor_contents=None):
        text = repr(self.dequantize())[:-1]
        column = len(text) - text.rfind("\n") - 1
        for part in (
            f"size={tuple(self.shape)}",
            f"dtype={self._kind}",
            f"quantization_scheme={per_tensor_affine}",
            f"scale={self._scale}",
            f"zero_point={self._zero_point}",
        ):
            fits = column + len(part) + 2 <= 80
            text += (", " if fits else ",\n       ") + part
            column = column + len(part) + 2 if fits else len(part) + 7
        return text + ")"

    __str__ = __repr__


def _made(numbers, scale, zero_point, kind):
    made = numbers.as_subclass(Quantized)
    made._scale, made._zero_point, made._kind = scale, zero_point, kind
    return made


def _numbers(input, scale, zero_point, least, most):
    return (input / scale).round().add(zero_point).clamp(least, most)


def quantize_per_tensor(input, scale, zero_point, dtype):
    """The nearest whole numbers, in the dtype's range."""
    scale, zero_point = float(scale), int(zero_point)
    return _made(
        _numbers(input.detach(), scale, zero_point, *_ENDS[dtype]).to(_STORAGE[dtype]), scale, zero_point, dtype
    )


def dequantize(tensor):
    return tensor.dequantize() if isinstance(tensor, Tensor) else [t.dequantize() for t in tensor]


class _Rounded(taper.autograd.Function):
    """Quantized and turned back; the gradient passes where nothing was cut off."""

    @staticmethod
    def forward(ctx, input, scale, zero_point, least, most):
        numbers = (input / scale).round() + zero_point
        ctx.save_for_backward((numbers >= least) & (numbers <= most))
        return (numbers.clamp(least, most) - zero_point) * scale

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None, None, None, None


def fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max):
    """What quantizing and turning back gives, with a gradient."""
    return _Rounded.apply(input, float(scale), int(zero_point), quant_min, quant_max)


def choose_scale(least, most, bits_least, bits_most):
    """The scale and zero point by which [least, most], and zero, fit a range of whole numbers."""
    least, most = min(least, 0.0), max(most, 0.0)
    scale = max((most - least) / (bits_most - bits_least), 1.1920928955078125e-07)
    return scale, min(max(round(bits_least - least / scale), bits_least), bits_most)
