"""torchvision.tv_tensors: tensors that know whether they are an image, boxes or a mask. What operators make of them are
plain tensors again."""

from enum import Enum

import taper as torch
from taper.overrides import DisableTorchFunctionSubclass

_KEPT = frozenset(("clone", "to", "detach", "requires_grad_"))


class TVTensor(torch.Tensor):
    """Base of the kinds."""

    def __new__(cls, data, *, dtype=None, device=None, requires_grad=None):
        tensor = torch.as_tensor(data, dtype=dtype, device=device)
        if requires_grad is not None:
            tensor = tensor.detach().requires_grad_(requires_grad)
        return cls._labelled(tensor)

    @classmethod
    def _labelled(cls, tensor, like=None):
        wrapped = (
            (tensor.as_subclass(torch.Tensor) if isinstance(tensor, TVTensor) else tensor).detach().as_subclass(cls)
        )
        if tensor.requires_grad:
            wrapped.requires_grad_()
        return wrapped

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        if (
            getattr(func, "__name__", "") in _KEPT
            and isinstance(args[0], TVTensor)
            and not isinstance(result, TVTensor)
        ):
            return wrap(result, like=args[0])
        return result.as_subclass(torch.Tensor) if isinstance(result, TVTensor) and result is not args[0] else result


class Image(TVTensor):
    """(..., C, H, W)"""

    def __new__(cls, data, *, dtype=None, device=None, requires_grad=None):
        from taper.torchvision._pillow import is_pil

        if is_pil(data):
            from taper.torchvision.transforms.functional import pil_to_tensor

            data = pil_to_tensor(data)
        tensor = torch.as_tensor(data, dtype=dtype, device=device)
        if tensor.ndim < 2:
            raise ValueError(f"An image has at least two dimensions, got {tensor.ndim}")
        return super().__new__(cls, tensor.unsqueeze(0) if tensor.ndim == 2 else tensor, requires_grad=requires_grad)


class Video(TVTensor):
    """(..., T, C, H, W)"""


class Mask(TVTensor):
    """(..., H, W)"""

    def __new__(cls, data, *, dtype=None, device=None, requires_grad=None):
        from taper.torchvision._pillow import is_pil

        if is_pil(data):
            from taper.torchvision.transforms.functional import pil_to_tensor

            data = pil_to_tensor(data)
        return super().__new__(cls, data, dtype=dtype, device=device, requires_grad=requires_grad)


class BoundingBoxFormat(Enum):
    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"


class BoundingBoxes(TVTensor):
    """(N, 4), with the size (height, width) of the image that they lie in."""

    def __new__(cls, data, *, format, canvas_size, clamping_mode="soft", dtype=None, device=None, requires_grad=None):
        boxes = super().__new__(
            cls, torch.atleast_2d(torch.as_tensor(data, dtype=dtype, device=device)), requires_grad=requires_grad
        )
        boxes.format = BoundingBoxFormat[format.upper()] if isinstance(format, str) else format
        boxes.canvas_size, boxes.clamping_mode = tuple(canvas_size), clamping_mode
        return boxes

    def __repr__(self):
        return (
            f"BoundingBoxes({self.as_subclass(torch.Tensor)}, format={self.format}, canvas_size={self.canvas_size}, "
            f"clamping_mode={self.clamping_mode})"
        )


def wrap(wrappee, *, like, **kwargs):
    """A tensor of the kind of `like`; of boxes, format= and canvas_size= may be others."""
    if isinstance(like, BoundingBoxes):
        options = {name: kwargs.get(name, getattr(like, name)) for name in ("format", "canvas_size", "clamping_mode")}
        return BoundingBoxes(wrappee, **options)
    return type(like)._labelled(wrappee)
