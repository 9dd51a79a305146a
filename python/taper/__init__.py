"""PyTorch's names on Taper's C library."""
from taper import _C
from taper._C import *
globals().update({name: f for name, f in _C._functions.items()})
Tensor = _C.Tensor
