# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


VERBOSE_OFF: int
VERBOSE_ON: int
VERBOSE_ON_CREATION: int
allow_tf32: Any
deterministic: bool
enabled: bool
fp32_precision: str
def is_acl_available(*args: Any, **kwargs: Any) -> Any: ...
def is_available() -> Any: ...
from taper.backends import verbose as verbose
def __getattr__(name: str) -> Any: ...
