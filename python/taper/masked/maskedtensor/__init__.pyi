# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.masked.maskedtensor.core import MaskedTensor as MaskedTensor
def as_masked_tensor(data: Any, mask: Any) -> Any: ...
from taper.masked.maskedtensor import binary as binary
from taper.masked.maskedtensor import core as core
from taper.masked.maskedtensor import creation as creation
def is_masked_tensor(obj: Any) -> Any: ...
def masked_tensor(data: Any, mask: Any, requires_grad: Any = ...) -> Any: ...
from taper.masked.maskedtensor import reductions as reductions
from taper.masked.maskedtensor import unary as unary
def __getattr__(name: str) -> Any: ...
