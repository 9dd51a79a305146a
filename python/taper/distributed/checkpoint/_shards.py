"""Tensors as boxes: what of a tensor this rank has, and what is written of it. Who writes which box, and how boxes that
were saved fill those that are wanted, is the library's to say (taper/checkpoint.h)."""

from taper._C import Size, Tensor
from taper.distributed.checkpoint.metadata import TensorProperties


def boxes(tensor):
    """The size of the whole tensor, and the (offsets, local tensor) pairs that this rank has of it; a plain tensor is
    one box on every rank."""
    parts = getattr(tensor, "_local_boxes", None)
    if parts is not None:
        return parts()
    return Size(tensor.shape), [(Size([0] * tensor.dim()), tensor.detach())]


def is_replicated(tensor):
    """Does every rank have all of it?"""
    return getattr(tensor, "_local_boxes", None) is None


def properties(tensor):
    return TensorProperties.create_from_tensor(tensor if is_replicated(tensor) else tensor.to_local().detach())


def saved_form(local):
    """What is written of a box: a tensor with no more memory than it shows."""
    local = local.detach()
    if type(local) is not Tensor:
        local = local.as_subclass(Tensor)
    local = local.cpu()
    if not local.is_contiguous() or local.untyped_storage().nbytes() != local.numel() * local.element_size():
        local = local.contiguous().clone()
    return local
