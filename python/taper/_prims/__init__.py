"""torch._prims: PyTorch's Python re-implementations of operators, of which there are none here; what compares their
results with others is."""

from taper import _prims_common as utils  # noqa: F401
