# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.distributed.algorithms.join import Join as Join
from taper.distributed.algorithms.join import JoinHook as JoinHook
from taper.distributed.algorithms.join import Joinable as Joinable
from taper.distributed.algorithms import ddp_comm_hooks as ddp_comm_hooks
from taper.distributed.algorithms import join as join
from taper.distributed.algorithms import model_averaging as model_averaging
def __getattr__(name: str) -> Any: ...
