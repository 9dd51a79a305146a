"""torch.nn: what networks are made of."""
from taper.nn import functional, init, parameter, utils  # noqa: F401
from taper.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter  # noqa: F401
from taper.nn.modules import *  # noqa: F401,F403
from taper.nn import modules  # noqa: F401
