"""Functions that PyTorch keeps for its own tests and for gradcheck."""

from taper.autograd.function import Function

__all__ = ["Resize", "UndefinedGrad"]


class Resize(Function):
    """The tensor in another shape."""

    @staticmethod
    def forward(ctx, tensor, sizes):
        count = 1
        for n in sizes:
            count *= n
        if count != tensor.numel():
            raise RuntimeError(
                f"requested resize to {'x'.join(map(str, sizes))} ({count} elements in total), but the given tensor "
                f"has a size of {'x'.join(map(str, tensor.shape))} ({tensor.numel()} elements). autograd's resize can "
                "only change the shape of a given tensor, while preserving the number of elements. "
            )
        ctx.input_sizes = tensor.shape
        return tensor.contiguous().view(*sizes)

    @staticmethod
    def backward(ctx, grad):
        return grad.contiguous().view(ctx.input_sizes), None


class _Undefined(Function):
    @staticmethod
    def forward(ctx, tensor):
        return tensor.clone()

    @staticmethod
    def backward(ctx, grad):
        return None


class UndefinedGrad:
    """Passes a tensor on, and no gradient back."""

    def __call__(self, tensor):
        return _Undefined.apply(tensor)
