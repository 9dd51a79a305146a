"""Process groups: backends, who is in a group and who meets where, over the library's (include/taper/dist.h). The
collectives are in distributed_c10d.py."""

import os
import sys
from enum import IntEnum

import taper as torch
from taper import _C
from taper.distributed._reduce_op import RedOpType, ReduceOp, reduce_op  # noqa: F401
from taper.distributed._store import (
    FileStore,
    HashStore,
    PrefixStore,
    QueueEmptyError,
    Store,
    TCPStore,
    _Wrapped,
    _seconds,
)  # noqa: F401
from taper.distributed.constants import default_pg_nccl_timeout, default_pg_timeout
from taper.distributed.rendezvous import env_is_served, env_place, find_store, register_rendezvous_handler, rendezvous  # noqa: F401

DistError, DistBackendError, DistNetworkError, DistStoreError = (
    _C._DistError,
    _C._DistBackendError,
    _C._DistNetworkError,
    _C._DistStoreError,
)


class Backend(str):
    """A backend's name in lower case."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake"
    backend_list = ["undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake"]
    default_device_backend_map = {"cpu": "gloo", "cuda": "nccl", "xpu": "xccl", "mps": "gloo"}

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())


class BackendConfig:
    """Which backend serves which device."""

    def __init__(self, backend):
        text = str(backend).lower()
        if ":" not in text:
            self.device_backend_map = dict.fromkeys(("cpu", "cuda", "xpu"), text)
            return
        self.device_backend_map = {}
        for part in text.split(","):
            device, colon, name = part.partition(":")
            if not colon or ":" in name:
                raise ValueError(f"Invalid device:backend pairing: {part}. {self._form(text)}")
            if device in self.device_backend_map:
                raise ValueError(f"Duplicate device type {device} in backend string: {name}. {self._form(text)}")
            self.device_backend_map[device] = name

    @staticmethod
    def _form(text):
        return (
            f"The custom backend string argument is invalid: {text}. Custom backend string is an experimental feature "
            "where the backend string must be in the format: "
            "\"<device_type1>:<backend1>,<device_type2>:<backend2>...\". e.g. 'cpu:gloo,cuda:nccl,xpu:xccl'"
        )

    def get_device_backend_map(self):
        return self.device_backend_map

    def __repr__(self):
        return ",".join(f"{device}:{name}" for device, name in self.device_backend_map.items())


class Work:
    """A collective that was begun. Its tensors may be used once it has been waited for."""

    def __init__(self, handle, results):
        self._handle, self._results, self._future = handle, results, None

    def wait(self, timeout=None):
        return self._handle.wait(_seconds(timeout, -1.0) or -1.0)

    def is_completed(self):
        return self._handle.done()

    def is_success(self):
        return self._handle.succeeded()

    def exception(self):
        error = self._handle.error()
        return None if error is None else DistBackendError(error)

    def synchronize(self):
        self.wait()

    def block_current_stream(self):
        self.wait()

    def source_rank(self):
        return self._handle.source()

    _source_rank = source_rank

    def result(self):
        self.wait()
        return list(self._results)

    def get_future(self):
        """A torch.futures.Future of the list of tensors."""
        if self._future is None:
            from taper.futures import Future

            self._future = Future._of(self._handle.done, self.result)
        return self._future


class ProcessGroup:
    """Ranks that take part in a collective together. Made by init_process_group and new_group."""

    def __init__(self, handle, ranks, backend, desc=None, device_id=None):
        self._handle, self._ranks, self._backend = handle, list(ranks), Backend(backend)
        self.bound_device_id = torch.device(device_id) if isinstance(device_id, (int, str)) else device_id
        self._place = {rank: i for i, rank in enumerate(self._ranks)}
        self.group_desc = desc or "undefined"

    def rank(self):
        return self._handle.rank

    def size(self):
        return len(self._ranks)

    def name(self):
        return self._backend

    @property
    def group_name(self):
        return self._handle.name

    @property
    def _device_types(self):
        return [torch.device(device) for device in BackendConfig(self._backend).get_device_backend_map()]

    def _get_sequence_number_for_group(self):
        return self._handle.number

    def __repr__(self):
        return f"<torch.distributed.distributed_c10d.ProcessGroup of {len(self._ranks)} ranks>"

    def __reduce__(self):
        raise TypeError("cannot pickle 'ProcessGroup' object")

    # PyTorch's C++ methods, which some libraries call: they return works.
    def allreduce(self, tensors, opts=None):
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        op = getattr(opts, "reduceOp", opts if opts is not None else ReduceOp.SUM)
        return [Work(self._handle.all_reduce(t, op), [t]) for t in tensors][-1]

    def broadcast(self, tensors, opts=None):
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        root = getattr(opts, "rootRank", opts or 0)
        return [Work(self._handle.broadcast(t, root), [t]) for t in tensors][-1]

    def barrier(self, opts=None):
        return Work(self._handle.barrier(), [])


class _BackendOptions:
    """What pg_options take: the settings of NCCL's own are kept, and its variables set them."""

    def __init__(self, is_high_priority_stream=False):
        self.is_high_priority_stream, self.config, self.split_from, self.split_color, self._timeout = (
            is_high_priority_stream,
            type("Config", (), {})(),
            None,
            0,
            default_pg_timeout,
        )


class ProcessGroupGloo(ProcessGroup):
    """For what is written about it; groups are ProcessGroups."""

    class Options(_BackendOptions):
        pass


class ProcessGroupNCCL(ProcessGroup):
    """For what is written about it; groups are ProcessGroups."""

    class Options(_BackendOptions):
        pass


class _Options:
    """What PyTorch's C++ methods take beside tensors."""

    def __init__(self):
        self.reduceOp, self.rootRank, self.rootTensor, self.timeout, self.asyncOp, self.device_ids = (
            ReduceOp.SUM,
            0,
            0,
            default_pg_timeout,
            True,
            [],
        )


class AllreduceOptions(_Options):
    pass


class AllreduceCoalescedOptions(_Options):
    pass


class BroadcastOptions(_Options):
    pass


class ReduceOptions(_Options):
    pass


class ReduceScatterOptions(_Options):
    pass


class GatherOptions(_Options):
    pass


class ScatterOptions(_Options):
    pass


class BarrierOptions(_Options):
    pass


class AllToAllOptions(_Options):
    pass


class _WorldMeta(type):
    @property
    def WORLD(cls):
        return _default

    @WORLD.setter
    def WORLD(cls, group_):
        _set_default(group_)


class group(metaclass=_WorldMeta):
    """group.WORLD is the group of all ranks."""


class GroupMember(metaclass=_WorldMeta):
    NON_GROUP_MEMBER = -100


_default = None  # the ProcessGroup of all ranks
_groups = []  # all that are open
_store = None
_count = 0  # of groups made


def open_groups():
    """{group: (its backend, its store)}, as PyTorch's _pg_map."""
    return {group_: (group_.name(), _store) for group_ in _groups}


def _set_default(group_):
    global _default
    _default = group_


# ---- What is there ----


def is_available():
    """Are process groups there? Always."""
    return True


def is_gloo_available():
    return True


def is_mpi_available():
    return _C._dist_available("mpi")


def is_nccl_available():
    return _C._dist_available("nccl")


def is_ucc_available():
    return False


def is_xccl_available():
    return _C._dist_available("xccl")


def is_backend_available(backend):
    return {
        "gloo": is_gloo_available,
        "mpi": is_mpi_available,
        "nccl": is_nccl_available,
        "xccl": is_xccl_available,
    }.get(backend.lower(), lambda: False)()


def is_initialized():
    return _default is not None


def is_torchelastic_launched():
    return "TORCHELASTIC_RUN_ID" in os.environ


def supports_complex(op):
    return op not in (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def get_default_backend_for_device(device):
    name = device.type if isinstance(device, torch.device) else str(device).partition(":")[0]
    try:
        return Backend.default_device_backend_map[name]
    except KeyError:
        raise ValueError(f"Default backend not registered for device : {device}") from None


# ---- Beginning and ending ----


def _timeout_for(backend, timeout):
    if timeout is not None and not hasattr(timeout, "total_seconds"):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    return _seconds(
        timeout, (default_pg_nccl_timeout if str(backend) == "nccl" else default_pg_timeout).total_seconds()
    )


_SERVED = ("gloo", "nccl", "mpi", "ccl", "xccl", "tcp")


def _backend_name(backend):
    """'gloo', or for each device 'cpu:gloo,cuda:nccl'; None stays None."""
    if backend is None:
        return None
    name = Backend(backend)
    if name == "ucc":
        raise RuntimeError("Distributed package doesn't have UCC built in")
    if ":" not in name and name not in _SERVED:
        raise AssertionError(f"Unknown backend type {name}")
    for one in BackendConfig(name).get_device_backend_map().values():
        if one not in _SERVED:
            raise AssertionError(f"Unknown c10d backend type {one.upper()}")
    return name


def _default_name():
    """What None stands for here."""
    host = "mpi" if _C._dist_engine() in ("openmpi", "mpich") else "gloo"
    gpus = [f"{device}:{name}" for device, name in (("cuda", "nccl"), ("xpu", "xccl")) if _C._dist_available(name)]
    return Backend(",".join([f"cpu:{host}", *gpus]) if gpus else host)


def init_process_group(
    backend=None,
    init_method=None,
    timeout=None,
    world_size=-1,
    rank=-1,
    store=None,
    group_name="",
    pg_options=None,
    device_id=None,
):
    """Joins the other processes of the job; where they meet is `store`, or what `init_method` says: env://,
    tcp://host:port, file:///path."""
    global _store
    if _default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise ValueError("Cannot specify both init_method and store.")
    name = _backend_name(backend)
    seconds = _timeout_for(name, timeout)
    if store is not None:
        if world_size < 1:
            raise ValueError("world_size must be positive if using store")
        if rank < 0:
            raise ValueError("rank must be non-negative if using store")
    elif name is not None and BackendConfig(name).get_device_backend_map().get("cpu") == "mpi":
        rank, world_size = (rank, world_size) if rank >= 0 and world_size > 0 else (-1, -1)
    elif init_method is None or init_method == "env://":
        rank, world_size = env_place(rank, world_size)
        if env_is_served(rank, world_size):
            store, rank, world_size = find_store("env://", rank, world_size, timeout or default_pg_timeout)
    else:
        store, rank, world_size = find_store(init_method, rank, world_size, timeout or default_pg_timeout)
    handle = _C._dist_init(name, rank, world_size, getattr(store, "_s", None), seconds)
    _store = store if store is not None else _Wrapped(_C._dist_store())
    _set_default(ProcessGroup(handle, range(handle.size), name or _default_name(), "default_pg", device_id))
    _groups.append(_default)
    _at_exit()


_exit_is_set = False


def _at_exit():
    """A process that ends says so to the others, and why if it failed."""
    global _exit_is_set
    if _exit_is_set:
        return
    _exit_is_set = True
    import atexit

    atexit.register(_leave)
    told = sys.excepthook

    def excepthook(kind, value, trace):
        text = str(value).partition("\n")[0]
        _C._dist_tell(f"{kind.__name__}: {text}" if text else kind.__name__)
        told(kind, value, trace)

    sys.excepthook = excepthook
    if "multiprocessing" in sys.modules:  # whose children end without atexit
        from multiprocessing import util

        util.Finalize(None, _leave, exitpriority=0)


def _leave():
    _C._dist_leave()


def destroy_process_group(group=None):
    """Closes a group; the group of all ranks, and with it every other, if none is given."""
    global _store, _count
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    if _default is None:
        raise AssertionError("Process group cannot be None")
    if group is None or group is _default:
        _C._dist_end()
        _set_default(None)
        _groups.clear()
        _store, _count = None, 0
    else:
        if group not in _groups:
            raise ValueError("Invalid process group specified")
        _groups.remove(group)
        group._handle.free()


def _group(group_=None):
    """The process group that is meant: the default one for None."""
    if group_ is None or group_ is GroupMember or group_ is group:
        group_ = _default
    if group_ is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return group_


_get_default_group = _group


def _get_process_group_store(pg):
    """The store that a group's members met by, under a prefix of the group's own."""
    return PrefixStore(_group(pg).group_name, _store)


def _get_default_store():
    _group()
    return _store


def _rank_not_in_group(group_):
    return group_ is not None and (group_ == GroupMember.NON_GROUP_MEMBER or group_.rank() < 0)


def _warn_not_in_group(name):
    from warnings import warn

    warn(f"Running {name} on global rank {_group().rank()} which does not belong to the given group.", stacklevel=3)


def get_rank(group=None):
    return -1 if _rank_not_in_group(group) else _group(group).rank()


def get_world_size(group=None):
    return -1 if _rank_not_in_group(group) else _group(group).size()


def get_backend(group=None):
    if _rank_not_in_group(group):
        raise ValueError("Invalid process group specified")
    return Backend(_group(group)._backend.partition(",")[0].rpartition(":")[2])


def get_backend_config(group=None):
    return str(BackendConfig(_group(group)._backend))


def get_node_local_rank(fallback_rank=None):
    local = _C._dist_place()[3]
    if local >= 0:
        return local
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, "
        "assuming you are not running in a multi-device context and want the code to run locally instead."
    )


def get_pg_count():
    return len(_groups)


def get_group_rank(group, global_rank):
    group = _group(group)
    if global_rank not in group._place:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return group._place[global_rank]


def get_global_rank(group, group_rank):
    group = _group(group)
    if not 0 <= group_rank < group.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return group._ranks[group_rank]


def get_process_group_ranks(group):
    return list(_group(group)._ranks)


def set_timeout(timeout, group=None):
    """How long a group's collectives may take from now on."""
    _group(group)._handle.set_timeout(_seconds(timeout))


_set_pg_timeout = set_timeout


# ---- Groups of some ranks ----


def new_group(
    ranks=None,
    timeout=None,
    backend=None,
    pg_options=None,
    use_local_synchronization=False,
    group_desc=None,
    device_id=None,
):
    """A group of some ranks. All ranks of the job make the call (with use_local_synchronization, those in the
    group)."""
    global _count
    world = _group()
    ranks = list(range(world.size())) if ranks is None else sorted(ranks)
    if len(ranks) > world.size():
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by init_process_group"
        )
    for rank in ranks:
        if not 0 <= rank < world.size():
            raise ValueError("The new group's rank should be within the world_size set by init_process_group")
    name = world._backend if backend in (None, "", "undefined") else _backend_name(backend)
    if use_local_synchronization and world.rank() not in ranks:
        return None
    _count += 1
    handle = _C._dist_group(
        ranks,
        _timeout_for(world._backend, timeout) if timeout is not None else 0.0,
        group_desc,
        use_local_synchronization,
    )
    if world.rank() not in ranks:
        handle.free()
        return GroupMember.NON_GROUP_MEMBER
    made = ProcessGroup(handle, ranks, name, group_desc)
    _groups.append(made)
    return made


def new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Groups for lists of ranks: (the one this rank is in, all of them)."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    made, mine, seen = [], None, set()
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in seen:
                raise ValueError(
                    f"Rank {rank} has appeared in both subgroup "
                    f"{[r for r in ranks_per_subgroup_list if rank in r][0]} and {ranks}"
                )
            seen.add(rank)
        made.append(new_group(ranks, timeout, backend, pg_options, group_desc=group_desc))
        if get_rank() in ranks:
            mine = made[-1]
    return mine, made


def new_subgroups(group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Groups of that many ranks that follow each other."""
    world = get_world_size()
    if group_size is None:
        group_size = _C._dist_place()[4]
    if group_size is None or group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if world < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({world})")
    if world % group_size:
        raise ValueError(f"The world size ({world}) must be divisible by '{group_size=}'")
    lists = [list(range(at, at + group_size)) for at in range(0, world, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None):
    """The group, of lists of the parent's ranks, that this rank is in."""
    parent = _group(parent_pg)
    mine = None
    for ranks in split_ranks or ():
        made = new_group(
            [get_global_rank(parent, rank) for rank in ranks],
            timeout,
            group_desc=group_desc,
            use_local_synchronization=True,
        )
        mine = mine or made
    return mine


# ---- How much is told ----


class DebugLevel(IntEnum):
    OFF, INFO, DETAIL = range(3)


_debug_level = DebugLevel.__members__.get(os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper(), DebugLevel.OFF)


def get_debug_level():
    return _debug_level


def set_debug_level(level):
    global _debug_level
    _debug_level = DebugLevel(level)


def set_debug_level_from_env():
    set_debug_level(DebugLevel[os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()])


__all__ = [
    name
    for name, value in list(globals().items())
    if name[0] != "_"
    and not isinstance(value, type(os))
    and name not in ("IntEnum", "RedOpType", "env_place", "find_store")
]
