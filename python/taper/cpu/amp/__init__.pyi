# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.cpu.amp.grad_scaler import GradScaler as GradScaler
from taper.cpu.amp.autocast_mode import autocast as autocast
from taper.cpu.amp import autocast_mode as autocast_mode
from taper.cpu.amp import grad_scaler as grad_scaler
def __getattr__(name: str) -> Any: ...
