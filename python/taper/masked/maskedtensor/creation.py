"""torch.masked.maskedtensor.creation: how masked tensors are made."""

from taper.masked.maskedtensor.core import MaskedTensor, check, wrap

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data, mask, requires_grad=False):
    """A masked tensor of its own: a leaf."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data, mask):
    """A masked tensor whose gradient goes on to data."""
    check(data, mask)
    return wrap(
        data.view_as(data)
        if data.layout is mask.layout is data.layout and not data.is_sparse and not data.is_sparse_csr
        else data,
        mask,
    )
