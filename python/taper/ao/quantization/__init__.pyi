# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


float16: Any
qint8: Any
def quantize_dynamic(model: Any, qconfig_spec: Any = ..., dtype: Any = ..., mapping: Any = ..., inplace: Any = ...) -> Any: ...
def __getattr__(name: str) -> Any: ...
