# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.distributed.checkpoint.metadata import BytesStorageMetadata as BytesStorageMetadata
from taper.distributed.checkpoint.api import CheckpointException as CheckpointException
from taper.distributed.checkpoint.metadata import ChunkStorageMetadata as ChunkStorageMetadata
from taper.distributed.checkpoint.default_planner import DefaultLoadPlanner as DefaultLoadPlanner
from taper.distributed.checkpoint.default_planner import DefaultSavePlanner as DefaultSavePlanner
from taper.distributed.checkpoint.filesystem import FileSystemReader as FileSystemReader
from taper.distributed.checkpoint.filesystem import FileSystemWriter as FileSystemWriter
from taper.distributed.checkpoint.planner import LoadPlanner as LoadPlanner
from taper.distributed.checkpoint.metadata import Metadata as Metadata
from taper.distributed.checkpoint.planner import SavePlanner as SavePlanner
from taper.distributed.checkpoint.storage import StorageReader as StorageReader
from taper.distributed.checkpoint.storage import StorageWriter as StorageWriter
from taper.distributed.checkpoint.metadata import TensorStorageMetadata as TensorStorageMetadata
from taper.distributed.checkpoint import api as api
def async_save(state_dict: Any, *, checkpoint_id: Any = ..., storage_writer: Any = ..., planner: Any = ..., process_group: Any = ..., async_checkpointer_type: Any = ..., async_stager: Any = ..., no_dist: Any = ..., use_collectives: Any = ...) -> Any: ...
from taper.distributed.checkpoint import default_planner as default_planner
from taper.distributed.checkpoint import filesystem as filesystem
from taper.distributed.checkpoint import format_utils as format_utils
def load(state_dict: Any, *, checkpoint_id: Any = ..., storage_reader: Any = ..., planner: Any = ..., process_group: Any = ..., no_dist: Any = ...) -> Any: ...
def load_state_dict(state_dict: Any, storage_reader: Any, process_group: Any = ..., coordinator_rank: Any = ..., no_dist: Any = ..., planner: Any = ...) -> Any: ...
from taper.distributed.checkpoint import metadata as metadata
from taper.distributed.checkpoint import optimizer as optimizer
from taper.distributed.checkpoint import planner as planner
def save(state_dict: Any, *, checkpoint_id: Any = ..., storage_writer: Any = ..., planner: Any = ..., process_group: Any = ..., no_dist: Any = ..., use_collectives: Any = ...) -> Any: ...
def save_state_dict(state_dict: Any, storage_writer: Any, process_group: Any = ..., coordinator_rank: Any = ..., no_dist: Any = ..., planner: Any = ...) -> Any: ...
from taper.distributed.checkpoint import state_dict as state_dict
from taper.distributed.checkpoint import state_dict_loader as state_dict_loader
from taper.distributed.checkpoint import state_dict_saver as state_dict_saver
from taper.distributed.checkpoint import stateful as stateful
from taper.distributed.checkpoint import storage as storage
def __getattr__(name: str) -> Any: ...
