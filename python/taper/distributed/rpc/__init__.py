"""torch.distributed.rpc: functions that run on other workers, by name, and references to what they hold. Calls travel
over TCP."""

from enum import Enum

from taper.distributed.rpc import api, constants, functions, options
from taper.distributed.rpc.api import (
    RRef,
    WorkerInfo,
    _get_current_rpc_agent,
    _is_current_rpc_agent_set,
    _set_rpc_timeout,
    _wait_all,
    get_rpc_timeout,
    get_worker_info,
    init_rpc,
    remote,
    rpc_async,
    rpc_sync,
    shutdown,
)
from taper.distributed.rpc.options import RpcBackendOptions, TensorPipeRpcBackendOptions
from taper.distributed.rpc.rref import PyRRef


class BackendType(Enum):
    TENSORPIPE = "TENSORPIPE"


def is_available():
    return True


def enable_gil_profiling(flag):
    """Nothing is measured here."""


__all__ = [
    "BackendType",
    "PyRRef",
    "RRef",
    "RpcBackendOptions",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "api",
    "constants",
    "enable_gil_profiling",
    "functions",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "options",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
    "_get_current_rpc_agent",
    "_is_current_rpc_agent_set",
    "_set_rpc_timeout",
    "_wait_all",
]
