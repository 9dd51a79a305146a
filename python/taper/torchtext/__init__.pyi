# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.torchtext import data as data
from taper.torchtext import datasets as datasets
def disable_torchtext_deprecation_warning() -> Any: ...
from taper.torchtext import functional as functional
from taper.torchtext import transforms as transforms
from taper.torchtext import vocab as vocab
def __getattr__(name: str) -> Any: ...
