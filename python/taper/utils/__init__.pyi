# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.utils import benchmark as benchmark
from taper.utils import checkpoint as checkpoint
from taper.utils import collect_env as collect_env
from taper.utils import cpp_extension as cpp_extension
from taper.utils import data as data
from taper.utils import deterministic as deterministic
from taper.utils import dlpack as dlpack
from taper.utils import flop_counter as flop_counter
from taper.utils import hooks as hooks
from taper.utils import mkldnn as mkldnn
from taper.utils import mobile_optimizer as mobile_optimizer
from taper.utils import model_zoo as model_zoo
def set_module(obj: Any, mod: Any) -> Any: ...
def swap_tensors(t1: Any, t2: Any) -> Any: ...
from taper.utils import tensorboard as tensorboard
from taper.utils import weak as weak
def __getattr__(name: str) -> Any: ...
