"""deepspeed.zero: contexts around the making and looking at of parameters that lie in parts."""

from contextlib import contextmanager

from taper import distributed as dist
from taper.autograd.grad_mode import no_grad
from taper.distributed.tensor._dtensor import DTensor

__all__ = ["GatheredParameters", "Init"]


@contextmanager
def Init(
    module=None,
    data_parallel_group=None,
    mem_efficient_linear=True,
    remote_device=None,
    pin_memory=False,
    config_dict_or_path=None,
    config=None,
    enabled=True,
    dtype=None,
    mpu=None,
    **options,
):
    """Models are made whole, and cut up by initialize()."""
    yield


@contextmanager
def GatheredParameters(params, modifier_rank=None, fwd_module=None, enabled=True):
    """Inside, p.data of parameters that lie in parts is whole; what rank modifier_rank wrote there is kept."""
    given = [params] if isinstance(params, DTensor) else list(params)
    parts = [p for p in given if isinstance(p, DTensor)] if enabled else []
    wholes = [p.detach().full_tensor() for p in parts]
    for p, whole in zip(parts, wholes):
        p._gathered = whole  # what p.data is meanwhile
    try:
        yield wholes
    finally:
        for p, whole in zip(parts, wholes):
            del p._gathered
            if modifier_rank is not None:
                dist.broadcast(whole, modifier_rank)
                with no_grad():
                    p.copy_(whole)
