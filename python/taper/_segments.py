"""What torch.segment_reduce makes of runs other than sums, with the gradients that PyTorch gives where an element is
not a number."""

import taper
from taper.autograd import Function


class Extreme(Function):
    """The largest or smallest element. Its gradient goes to all elements that are it, in equal parts; elements that are
    not numbers share that of a result that is none."""

    @staticmethod
    def forward(ctx, data, place, start, name):
        made = start.scatter_reduce(0, place, data, name)
        ctx.save_for_backward(data, place, made)
        return made

    @staticmethod
    def backward(ctx, grad):
        data, place, made = ctx.saved_tensors
        found = made.gather(0, place)
        chosen = ((data == found) | (data.isnan() & found.isnan())).to(grad.dtype)
        shares = grad.new_zeros(made.shape).scatter_add(0, place, chosen)
        return (grad / shares.clamp(min=1)).gather(0, place) * chosen, None, None, None


class Product(Function):
    """The product. An element's gradient is the product of the others: it is a number where the element itself is the
    only one that is none."""

    @staticmethod
    def forward(ctx, data, place, start):
        ctx.save_for_backward(data, place, start)
        return start.scatter_reduce(0, place, data, "prod")

    @staticmethod
    def backward(ctx, grad):
        data, place, start = ctx.saved_tensors
        again = taper.is_grad_enabled()
        strange = data.isnan()
        with taper.enable_grad():
            numbers = (
                data.masked_fill(strange, 1)
                if again and data.requires_grad
                else data.detach().masked_fill(strange, 1).requires_grad_()
            )
            made = start.detach().scatter_reduce(0, place, numbers, "prod")
            found = taper.autograd.grad(made, numbers, grad, create_graph=again)[0]
        others = grad.new_zeros(start.shape).scatter_add(0, place, strange.to(grad.dtype)).gather(
            0, place
        ) - strange.to(grad.dtype)
        return found.masked_fill(others > 0, float("nan")), None, None
