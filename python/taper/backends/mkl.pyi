# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


VERBOSE_OFF: int
VERBOSE_ON: int
def is_available(*args: Any, **kwargs: Any) -> Any: ...
from taper.backends import verbose as verbose
def __getattr__(name: str) -> Any: ...
