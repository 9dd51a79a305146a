"""Tensors in oneDNN's layout (`tensor.to_mkldnn()`). The library hands oneDNN what it likes by itself, so such a tensor
is a dense one that answers as PyTorch's opaque one does: it has no strides to look at, and results of operators on it
are of its kind until to_dense()."""

from taper import _C
from taper._C import Tensor

_mkldnn = _C._mkldnn
_DTYPES = (_C.float32, _C.bfloat16, _C.float16, _C.uint8, _C.int8)


class MkldnnTensor(Tensor):
    """A tensor whose memory only oneDNN would read."""

    layout, is_mkldnn = property(lambda self: _mkldnn), property(lambda self: True)

    def to_dense(self, dtype=None, *, masked_grad=True):
        dense = self.as_subclass(Tensor)
        return dense if dtype is None else dense.to(dtype)

    def to_mkldnn(self, dtype=None):
        return self if dtype in (None, self.dtype) else to_mkldnn(self.to_dense(dtype))

    def data_ptr(self):
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def view(self, *shape):
        raise RuntimeError("mkldnn tensors do not support view. Change to use reshape")

    def new(self, *args, **kwargs):
        raise RuntimeError("new(): expected a dense tensor, got one with layout torch._mkldnn")

    def copy_(self, src, non_blocking=False):
        if not isinstance(src, MkldnnTensor):
            raise RuntimeError(
                "copy_mkldnn_: between mkldnn layout and dense Tensors is not implemented! "
                f"Found self type = Mkldnn{self.to_dense().type()} and src type = {src.type()}"
            )
        if src.shape != self.shape:
            raise RuntimeError("copy_mkldnn_: only support same size tensor.")
        return super().copy_(src, non_blocking)

    def __repr__(self):
        return repr(self.to_dense().detach())[:-1] + ", layout=torch._mkldnn)"

    __str__ = __repr__


def to_mkldnn(self, dtype=None):
    """The tensor in oneDNN's layout, in float32 or one of the smaller dtypes."""
    if self.device.type != "cpu":
        raise RuntimeError(f"dense_to_mkldnn expects CPU tensor input, got {self.device}")
    if self.dtype not in _DTYPES:
        raise RuntimeError(f"dense_to_mkldnn expects float, bfloat16, half, uint8, int8 tensor input, got {self.dtype}")
    converted = self if dtype is None else self.to(dtype)
    return (converted.clone() if converted is self else converted).as_subclass(MkldnnTensor)


def _mkldnn_transpose(input, dim0, dim1):
    return input.transpose(dim0, dim1)
