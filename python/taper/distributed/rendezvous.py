"""torch.distributed.rendezvous: where the processes of a job meet, from an address like tcp://host:port or
file:///path."""

import os
import time
import warnings

from taper import _C
from taper.distributed._store import FileStore, PrefixStore, Store, TCPStore, _seconds
from taper.distributed.constants import default_pg_timeout

__all__ = ["register_rendezvous_handler", "rendezvous"]

_handlers = {}
_env_stores = {}  # by place: one store serves all that meets by env:// in a process, until that ends
_PORT_SECONDS = 5


def register_rendezvous_handler(scheme, handler):
    """A function for addresses that begin with `scheme`: it yields (store, rank, world_size)."""
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def _error(kind, text):
    return ValueError(f"Error initializing torch.distributed using {kind} rendezvous: {text}")


def _query(query):
    return dict(part.partition("=")[::2] for part in query.split("&") if part)


def _place(kind, query, rank, world_size):
    """Rank and world size: the arguments count, then the address."""
    rank = int(query.get("rank", -1)) if rank < 0 else rank
    world_size = int(query.get("world_size", -1)) if world_size < 0 else world_size
    if rank < 0:
        raise _error(kind, "rank parameter missing")
    if world_size < 1:
        raise _error(kind, "world size parameter missing")
    return rank, world_size


def _warn_of_ranks_alone():
    """Where RANK=0 and WORLD_SIZE=1 make each rank of a larger job a job of its own, its first rank says so."""
    launcher, rank, size = _C._dist_unheeded()
    if launcher and rank == 0:
        warnings.warn(
            f"RANK and WORLD_SIZE in the environment say one rank of one, but {launcher} started {size}: "
            "each of them is a job of its own. Unset RANK and WORLD_SIZE to make them one job.",
            stacklevel=4,
        )


def env_place(rank=-1, world_size=-1):
    """Rank and world size, by the arguments or by what the launcher says."""
    launcher, said_rank, said_size, _, _ = _C._dist_place()
    if rank < 0 and world_size < 0:
        _warn_of_ranks_alone()
    for name, given in (("RANK", rank), ("WORLD_SIZE", world_size)):
        if given < 0 and launcher is None and name not in os.environ:
            raise _error("env://", f"environment variable {name} expected, but not set")
    if rank < 0:
        rank = int(os.environ["RANK"]) if launcher is None else said_rank
    if world_size < 0:
        world_size = int(os.environ["WORLD_SIZE"]) if launcher is None else said_size
    return rank, world_size


def _libuv(query=None):
    """The backend that the address or the environment names; here there is one, which goes by both names."""
    return (query or {}).get("use_libuv", os.environ.get("USE_LIBUV", "1")) == "1"


def _meet(host, port, world_size, serves, timeout, libuv=True):
    """The store there. A port that is taken may be one of a job that is just ending: rank 0 waits a few seconds for
    it."""
    until = time.monotonic() + _PORT_SECONDS
    while True:
        try:
            return TCPStore(
                host, port, world_size, serves, timeout, multi_tenant=True, wait_for_workers=False, use_libuv=libuv
            )
        except _C._DistNetworkError as error:
            if not serves or "already in use" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.2)


def _env_key(rank, world_size):
    return os.getpid(), rank, world_size, os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")


def _store_of_group(rank, world_size):
    """The process group's store, where it has the same ranks: it may be what listens at MASTER_PORT."""
    from taper.distributed import _process_group

    group = _process_group._default
    if group is None or (group.rank(), group.size()) != (rank, world_size):
        return None
    store = _process_group._store.clone()
    store.host = os.environ["MASTER_ADDR"]
    return store


def env_is_served(rank, world_size):
    """Whether the store of env:// is there: the launcher's, or one by which this process met others before."""
    launchers = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return launchers or _env_key(rank, world_size) in _env_stores


def _env(rank, world_size, timeout):
    rank, world_size = env_place(rank, world_size)
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if name not in os.environ:
            raise _error("env://", f"environment variable {name} expected, but not set")
    host, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    if not port.isdigit():
        raise _error("env://", f"environment variable MASTER_PORT: expected a port's number, got '{port}'")
    port = int(port)
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        attempt = f"/worker/attempt_{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        return PrefixStore(attempt, _meet(host, port, world_size, False, timeout, _libuv())), rank, world_size
    key = _env_key(rank, world_size)
    if key not in _env_stores:
        _env_stores[key] = _store_of_group(rank, world_size) or _meet(
            host, port, world_size, rank == 0, timeout, _libuv()
        )
    return _env_stores[key], rank, world_size


def _tcp(address, query, rank, world_size, timeout):
    rank, world_size = _place("tcp://", query, rank, world_size)
    host, colon, port = address.strip("/").rpartition(":")
    if not colon or not port.isdigit():
        raise _error("tcp://", "port number missing")
    return _meet(host.strip("[]"), int(port), world_size, rank == 0, timeout, _libuv(query)), rank, world_size


def _file(path, query, rank, world_size):
    if not path:
        raise _error("file://", "path missing")
    rank, world_size = _place("file://", query, rank, world_size)
    return FileStore(path, world_size), rank, world_size


def find_store(url, rank, world_size, timeout):
    """(store, rank, world_size) for an address."""
    scheme, _, rest = url.partition("://")
    address, _, query = rest.partition("?")
    if scheme in _handlers:
        return next(iter(_handlers[scheme](url, rank=rank, world_size=world_size, timeout=timeout)))
    if scheme == "env":
        return _env(rank, world_size, timeout)
    if scheme == "tcp":
        return _tcp(address, _query(query), rank, world_size, timeout)
    if scheme == "file":
        return _file(address, _query(query), rank, world_size)
    raise RuntimeError(f"No rendezvous handler for {scheme}://")


def rendezvous(url, rank=-1, world_size=-1, **kwargs):
    """Yields (store, rank, world_size), once."""
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    url = url if isinstance(url, str) else url.decode()
    scheme, _, rest = url.partition("://")
    if scheme not in _handlers and scheme not in ("env", "tcp", "file"):
        raise RuntimeError(f"No rendezvous handler for {scheme}://")
    query = _query(rest.partition("?")[2])
    if (rank != -1 or world_size != -1) and ("rank" in query or "world_size" in query):
        raise AssertionError(f"The url: {url} has node-specific arguments(rank, world_size) already.")
    return _once(url, rank, world_size, kwargs.get("timeout") or default_pg_timeout)


def _once(url, rank, world_size, timeout):
    yield find_store(url, rank, world_size, timeout)
    raise RuntimeError("Unable to perform rerendezvous using this method")
