# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.distributed.launcher.api import LaunchConfig as LaunchConfig
from taper.distributed.launcher import api as api
from taper.distributed.launcher.api import elastic_launch as elastic_launch
def launch_agent(config: Any, entrypoint: Any, args: Any) -> Any: ...
def __getattr__(name: str) -> Any: ...
