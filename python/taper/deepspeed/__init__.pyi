# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.deepspeed.engine import DeepSpeedEngine as DeepSpeedEngine
from taper.deepspeed import accelerator as accelerator
def add_config_arguments(parser: Any) -> Any: ...
from taper.deepspeed import checkpointing as checkpointing
from taper.deepspeed import comm as comm
from taper.deepspeed import config as config
from taper.deepspeed import engine as engine
def init_distributed(dist_backend: Any = ..., auto_mpi_discovery: Any = ..., distributed_port: Any = ..., verbose: Any = ..., timeout: Any = ..., init_method: Any = ..., dist_init_required: Any = ..., config: Any = ..., rank: Any = ..., world_size: Any = ...) -> Any: ...
def initialize(args: Any = ..., model: Any = ..., optimizer: Any = ..., model_parameters: Any = ..., training_data: Any = ..., lr_scheduler: Any = ..., distributed_port: Any = ..., mpu: Any = ..., dist_init_required: Any = ..., collate_fn: Any = ..., config: Any = ..., mesh_param: Any = ..., config_params: Any = ...) -> Any: ...
from taper.deepspeed import ops as ops
from taper.deepspeed import runtime as runtime
from taper.deepspeed import utils as utils
version: str
from taper.deepspeed import zero as zero
def __getattr__(name: str) -> Any: ...
