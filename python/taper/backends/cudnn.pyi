# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


benchmark_limit: int
conv: Any
fp32_precision: str
def is_acceptable(tensor: Any) -> Any: ...
def is_available() -> Any: ...
rnn: Any
def version() -> Any: ...
enabled: bool
benchmark: bool
deterministic: bool
allow_tf32: bool
def __getattr__(name: str) -> Any: ...
