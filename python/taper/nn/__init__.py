"""torch.nn: what networks are made of."""
from taper.nn import functional  # noqa: F401
