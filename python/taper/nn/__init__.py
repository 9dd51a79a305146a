"""torch.nn: what networks are made of."""
from taper.nn import functional, parameter  # noqa: F401
from taper.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter  # noqa: F401
