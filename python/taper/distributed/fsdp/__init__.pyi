# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.distributed.fsdp.api import BackwardPrefetch as BackwardPrefetch
from taper.distributed.fsdp.api import CPUOffload as CPUOffload
from taper.distributed.fsdp._fully_shard import CPUOffloadPolicy as CPUOffloadPolicy
from taper.distributed.fsdp._fully_shard import FSDPModule as FSDPModule
from taper.distributed.fsdp.api import FullOptimStateDictConfig as FullOptimStateDictConfig
from taper.distributed.fsdp.api import FullStateDictConfig as FullStateDictConfig
from taper.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel as FullyShardedDataParallel
from taper.distributed.fsdp.api import LocalOptimStateDictConfig as LocalOptimStateDictConfig
from taper.distributed.fsdp.api import LocalStateDictConfig as LocalStateDictConfig
from taper.distributed.fsdp.api import MixedPrecision as MixedPrecision
from taper.distributed.fsdp._fully_shard import MixedPrecisionPolicy as MixedPrecisionPolicy
from taper.distributed.fsdp._fully_shard import OffloadPolicy as OffloadPolicy
from taper.distributed.fsdp.api import OptimStateDictConfig as OptimStateDictConfig
from taper.distributed.fsdp.api import OptimStateKeyType as OptimStateKeyType
from taper.distributed.fsdp.api import ShardedOptimStateDictConfig as ShardedOptimStateDictConfig
from taper.distributed.fsdp.api import ShardedStateDictConfig as ShardedStateDictConfig
from taper.distributed.fsdp.api import ShardingStrategy as ShardingStrategy
from taper.distributed.fsdp.api import StateDictConfig as StateDictConfig
from taper.distributed.fsdp.api import StateDictSettings as StateDictSettings
from taper.distributed.fsdp.api import StateDictType as StateDictType
from taper.distributed.fsdp._fully_shard import UnshardHandle as UnshardHandle
from taper.distributed.fsdp import api as api
def fully_shard(module: Any, *, mesh: Any = ..., reshard_after_forward: Any = ..., shard_placement_fn: Any = ..., mp_policy: Any = ..., offload_policy: Any = ..., ignored_params: Any = ..., dp_mesh_dims: Any = ...) -> Any: ...
from taper.distributed.fsdp import fully_sharded_data_parallel as fully_sharded_data_parallel
def register_fsdp_forward_method(module: Any, method_name: Any) -> Any: ...
from taper.distributed.fsdp import sharded_grad_scaler as sharded_grad_scaler
from taper.distributed.fsdp import wrap as wrap
def __getattr__(name: str) -> Any: ...
