"""torch.distributed.nn: collectives that can be differentiated, and modules on other workers."""

from taper.distributed.nn import functional  # noqa: F401
from taper.distributed.nn.functional import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)  # noqa: F401


def __getattr__(name):
    if name == "RemoteModule":
        from taper.distributed.nn.api.remote_module import RemoteModule

        return RemoteModule
    raise AttributeError(f"module 'torch.distributed.nn' has no attribute '{name}'")
