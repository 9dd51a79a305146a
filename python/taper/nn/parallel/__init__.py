"""torch.nn.parallel: one module on several devices of this process, or in several processes."""

from taper.nn.parallel.data_parallel import DataParallel, data_parallel  # noqa: F401
from taper.nn.parallel.parallel_apply import parallel_apply  # noqa: F401
from taper.nn.parallel.replicate import replicate  # noqa: F401
from taper.nn.parallel.scatter_gather import gather, scatter  # noqa: F401


def __getattr__(name):  # needs torch.distributed, which few programs load
    if name in ("DistributedDataParallel", "distributed"):
        from importlib import import_module

        module = import_module("taper.nn.parallel.distributed")
        return module if name == "distributed" else module.DistributedDataParallel
    raise AttributeError(f"module 'torch.nn.parallel' has no attribute '{name}'")
