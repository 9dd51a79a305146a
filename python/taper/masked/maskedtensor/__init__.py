"""torch.masked.maskedtensor: tensors that carry a mask."""

from taper.masked.maskedtensor.core import MaskedTensor, is_masked_tensor  # noqa: F401
from taper.masked.maskedtensor.creation import as_masked_tensor, masked_tensor  # noqa: F401
