"""torch.special: special functions."""

from taper import _C

globals().update(_C._namespace("special"))
