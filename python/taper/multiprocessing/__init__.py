"""torch.multiprocessing: Python's multiprocessing with tensors that processes share. A tensor that goes through a
queue, a pipe, a pool or a process's arguments moves to shared memory and both sides look at the same numbers from then
on."""

import multiprocessing
from multiprocessing import *  # noqa: F403

from taper.multiprocessing.reductions import (
    get_all_sharing_strategies,
    get_sharing_strategy,
    init_reductions,
    set_sharing_strategy,
)
from taper.multiprocessing.spawn import (  # noqa: F401
    ENV_VAR_PARALLEL_START,
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = ["set_sharing_strategy", "get_sharing_strategy", "get_all_sharing_strategies", *multiprocessing.__all__]
init_reductions()


def __getattr__(name):
    if name in ("pool", "queue"):
        from importlib import import_module

        return import_module("taper.multiprocessing." + name)
    raise AttributeError(f"module 'torch.multiprocessing' has no attribute '{name}'")
