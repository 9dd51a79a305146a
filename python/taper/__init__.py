"""PyTorch's names on Taper's C library."""
from taper import _C
globals().update(_C._functions)
from taper._C import *  # dtypes last: torch.bool is one, and an operator is called so too
from taper._tensor import asarray, from_dlpack
from taper._legacy import *
from taper.storage import TypedStorage, UntypedStorage

Tensor = _C.Tensor
