"""torch.distributed: several processes that exchange tensors. docs/clusters.md tells how."""

from taper.distributed.distributed_c10d import *  # noqa: F401,F403
from taper.distributed.distributed_c10d import (
    _all_gather_base,
    _broadcast_coalesced,
    _coalescing_manager,
    _get_default_group,
    _make_nccl_premul_sum,
    _rank_not_in_group,
    _reduce_scatter_base,
)  # noqa: F401

# Loaded at the first use of torch.distributed.NAME.
_LATER = frozenset(
    """_composable _functional_collectives algorithms argparse_util autograd checkpoint device_mesh elastic fsdp launch
    launcher nn optim pipelining rpc run tensor utils""".split()
)
_FROM = {"init_device_mesh": "device_mesh", "DeviceMesh": "device_mesh", "GradBucket": "algorithms.ddp_comm_hooks"}


def __getattr__(name):
    from importlib import import_module

    try:
        if name in _LATER:
            return import_module("taper.distributed." + name)
        if name in _FROM:
            return getattr(import_module("taper.distributed." + _FROM[name]), name)
    except ModuleNotFoundError:
        pass
    raise AttributeError(f"module 'torch.distributed' has no attribute '{name}'")
