"""torch.distributed.launcher.api: a function, or a command, as the ranks of a job on this machine, with torchrun's
variables and restarts."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

from taper._hook import NotCovered
from taper._launch.options import free_port, new_secret
from taper.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from taper.multiprocessing.spawn import ProcessException, start_processes

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclass
class LaunchConfig:
    """Torchrun's options by name. Nodes but one need `taper launch` on each."""

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: Any = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str = None
    metrics_cfg: dict = field(default_factory=dict)
    local_addr: str = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list = None
    duplicate_stderr_filters: list = None
    virtual_local_rank: bool = False
    shutdown_timeout: int = None


def _variables(config, local_rank, attempt, port, secret):
    n = str(config.nproc_per_node)
    rank = str(local_rank)
    return {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "ROLE_RANK": rank,
        "GROUP_RANK": "0",
        "WORLD_SIZE": n,
        "LOCAL_WORLD_SIZE": n,
        "ROLE_WORLD_SIZE": n,
        "GROUP_WORLD_SIZE": "1",
        "ROLE_NAME": config.role,
        "MASTER_ADDR": config.local_addr or "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": config.run_id or "none",
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(config.max_restarts),
        **secret,
    }


def _work(local_rank, config, attempt, port, secret, entrypoint, args, results):
    """One rank."""
    os.environ.update(_variables(config, local_rank, attempt, port, secret))
    if isinstance(entrypoint, str):
        status = subprocess.run([entrypoint, *map(str, args)]).returncode
        if status:
            sys.exit(status)
        results.put((local_rank, None))
        return
    results.put((local_rank, entrypoint(*args)))


def launch_agent(config, entrypoint, args):
    """Runs the ranks, again after a failure while restarts are left: {rank: what the function returned}."""
    if config.max_nodes > 1:
        raise NotCovered("torch.distributed.launcher.api over several nodes (`taper launch --nnodes` does that)")
    import multiprocessing

    secret = new_secret()
    for attempt in range(config.max_restarts + 1):
        results, came = multiprocessing.get_context(config.start_method).SimpleQueue(), {}
        try:
            arguments = config, attempt, free_port(), secret, entrypoint, tuple(args), results
            ranks = start_processes(
                _work, arguments, config.nproc_per_node, join=False, start_method=config.start_method
            )
            while not ranks.join(config.monitor_interval) or not results.empty():
                while not results.empty():  # a large result waits to be read
                    came.update([results.get()])
        except ProcessException as error:
            if attempt < config.max_restarts:
                continue
            name = entrypoint if isinstance(entrypoint, str) else getattr(entrypoint, "__qualname__", "entrypoint")
            failure = ProcessFailure(error.error_index, error.pid, getattr(error, "exit_code", 1), message=error.msg)
            raise ChildFailedError(name, {error.error_index: failure}) from error
        return dict(sorted(came.items()))
    raise AssertionError("max_restarts must not be negative")


class elastic_launch:
    """elastic_launch(config, function)(*args) gives {rank: result}."""

    def __init__(self, config, entrypoint, health_check_server=None):
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args):
        return launch_agent(self._config, self._entrypoint, list(args))
