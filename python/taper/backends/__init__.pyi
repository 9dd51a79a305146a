# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.backends import cpu as cpu
from taper.backends import cuda as cuda
from taper.backends import cudnn as cudnn
from taper.backends import cusparselt as cusparselt
fp32_precision: str
from taper.backends import kleidiai as kleidiai
from taper.backends import mha as mha
from taper.backends import miopen as miopen
from taper.backends import mkl as mkl
from taper.backends import mkldnn as mkldnn
from taper.backends import mps as mps
from taper.backends import nnpack as nnpack
from taper.backends import openmp as openmp
from taper.backends import opt_einsum as opt_einsum
from taper.backends import quantized as quantized
class verbose:
    def __init__(self, level: Any = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
from taper.backends import xnnpack as xnnpack
def __getattr__(name: str) -> Any: ...
