"""torch.distributed.rpc.api: calls, references and the agent's beginning and end."""

import pickle
import threading
import time

from taper.distributed.rpc._agent import MAKE, Agent, WorkerInfo
from taper.distributed.rpc.constants import DEFAULT_SHUTDOWN_TIMEOUT, UNSET_RPC_TIMEOUT
from taper.distributed.rpc.options import TensorPipeRpcBackendOptions
from taper.distributed.rpc.rref import RRef
from taper.futures import Future

_now, _times = None, 0


def _is_current_rpc_agent_set():
    return _now is not None


def _get_current_rpc_agent():
    if _now is None:
        raise RuntimeError("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")
    return _now


def _require_initialized(func):
    """func, which says so where it is called before init_rpc."""
    from functools import wraps

    @wraps(func)
    def wrapper(*args, **kwargs):
        _get_current_rpc_agent()
        return func(*args, **kwargs)

    return wrapper


def init_rpc(name, backend=None, rank=-1, world_size=None, rpc_backend_options=None):
    """Makes this process a worker: it can be called, and can call the others."""
    global _now, _times
    if _now is not None:
        raise RuntimeError("RPC is already initialized")
    from taper.distributed.rendezvous import rendezvous

    options = rpc_backend_options or TensorPipeRpcBackendOptions()
    store, rank, world_size = next(rendezvous(options.init_method, rank, -1 if world_size is None else world_size))
    _now = Agent(name, rank, world_size, store, f"rpc{_times}", options.rpc_timeout)
    _times += 1
    _now.barrier("begin")


def shutdown(graceful=True, timeout=DEFAULT_SHUTDOWN_TIMEOUT):
    """Ends the agent: graceful, when all workers want that and no call is under way."""
    global _now
    agent = _get_current_rpc_agent()
    if graceful:
        until = time.monotonic() + timeout if timeout else None
        for phase in (
            "quiet",
            "quiet still",
            "end",
        ):  # a call that another worker made before it came here may have made further ones
            while not agent.idle() and (until is None or time.monotonic() < until):
                time.sleep(0.002)
            agent.barrier(phase)
        if agent.info.id == 0:  # the store may be ours: it stays until the others have read it
            for worker in agent.workers[1:]:
                agent.store.get(f"{agent.prefix}/left/{worker.id}")
        else:
            agent.store.set(f"{agent.prefix}/left/{agent.info.id}", b"1")
    agent.close()
    _now = None


def _barrier(worker_names):
    """Waits for the named workers; all of them call it the same number of times."""
    agent = _get_current_rpc_agent()
    workers = sorted((agent.worker(name) for name in worker_names), key=lambda worker: worker.id)
    if agent.info not in workers:
        raise RuntimeError(f"_barrier: worker {agent.info.name} is not one of {sorted(worker_names)}")
    which = ",".join(str(worker.id) for worker in workers)
    with agent.lock:
        agent.met[which] = agent.met.get(which, 0) + 1
        name = f"met {which} {agent.met[which]}"
    agent.barrier(name, workers)


def get_worker_info(worker_name=None):
    """This worker, or the one of that name."""
    agent = _get_current_rpc_agent()
    return agent.info if worker_name is None else agent.worker(worker_name)


def get_rpc_timeout():
    return _get_current_rpc_agent().timeout


def _set_rpc_timeout(seconds):
    _get_current_rpc_agent().timeout = seconds


def _checked(func):
    if not callable(func):
        raise TypeError("function should be callable.")
    return func


def rpc_async(to, func, args=None, kwargs=None, timeout=UNSET_RPC_TIMEOUT):
    """The future of func(*args, **kwargs) on another worker."""
    agent = _get_current_rpc_agent()
    future = agent.call(agent.worker(to), _checked(func), args, kwargs, timeout)
    gathered = getattr(_gathering, "futures", None)
    if gathered is not None:
        gathered.append(future)
    return future


def rpc_sync(to, func, args=None, kwargs=None, timeout=UNSET_RPC_TIMEOUT):
    """func(*args, **kwargs) on another worker."""
    agent = _get_current_rpc_agent()
    return agent.call(agent.worker(to), _checked(func), args, kwargs, timeout).wait()


def remote(to, func, args=None, kwargs=None, timeout=UNSET_RPC_TIMEOUT):
    """A reference to func(*args, **kwargs), which runs on another worker and stays there."""
    agent = _get_current_rpc_agent()
    owner, id = agent.worker(to), agent.new_id()
    if owner == agent.info:
        agent.hold(id)  # at once: what is ours is looked up without a message
    else:
        agent.link(owner.id).send(MAKE, pickle.dumps(id))
    made = RRef._of(owner, id)
    made._making = agent.call(owner, _hold, (id, _checked(func), tuple(args or ()), kwargs or {}), timeout=timeout)
    return made


def _hold(id, func, args, kwargs):
    """Runs what a reference stands for."""
    held = _get_current_rpc_agent().held.get(id)
    future = Future() if held is None else held.future  # nobody may want it any more
    try:
        result = func(*args, **kwargs)
        if hasattr(func, "_wrapped_async_rpc_function"):
            result = result.wait()
    except Exception as error:
        future.set_exception(error)
    else:
        future.set_result(result)


_gathering = threading.local()


class _wait_all:
    """with _wait_all(): waits at the end for every rpc_async inside."""

    def __enter__(self):
        self.futures = _gathering.futures = []
        return self.futures

    def __exit__(self, *error):
        _gathering.futures = None
        for future in self.futures:
            future.wait()


__all__ = [
    "RRef",
    "WorkerInfo",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]
