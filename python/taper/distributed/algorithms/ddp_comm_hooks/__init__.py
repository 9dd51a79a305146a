"""torch.distributed.algorithms.ddp_comm_hooks: other ways than plain averaging to make gradients the same on all
ranks."""

from enum import Enum

from taper.distributed.algorithms.ddp_comm_hooks import debugging_hooks as _debugging
from taper.distributed.algorithms.ddp_comm_hooks import default_hooks as _default
from taper.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as _power
from taper.nn.parallel._reducer import GradBucket  # noqa: F401

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


def _plain(hook, model, state):
    model.register_comm_hook(state, hook)


def _powered(hook, rank, model, state):
    model.register_comm_hook(_power.PowerSGDState(state, matrix_approximation_rank=rank), hook)


class _Registers:
    """Registers a hook with a model. Not a functools.partial: from Python 3.13 on that is a descriptor, which an Enum
    takes for a method and not for a member."""

    def __init__(self, register, *first):
        self._register, self._first = register, first

    def __call__(self, model, state):
        self._register(*self._first, model=model, state=state)


class DDPCommHookType(Enum):
    """The hooks by name: register_ddp_comm_hook(DDPCommHookType.FP16_COMPRESS, model, state=None)."""

    ALLREDUCE = _Registers(_plain, _default.allreduce_hook)
    FP16_COMPRESS = _Registers(_plain, _default.fp16_compress_hook)
    BF16_COMPRESS = _Registers(_plain, _default.bf16_compress_hook)
    POWER_SGD = _Registers(_powered, _power.powerSGD_hook, 1)
    POWER_SGD_RANK2 = _Registers(_powered, _power.powerSGD_hook, 2)
    BATCHED_POWER_SGD = _Registers(_powered, _power.batched_powerSGD_hook, 1)
    BATCHED_POWER_SGD_RANK2 = _Registers(_powered, _power.batched_powerSGD_hook, 2)
    NOOP = _Registers(_plain, _debugging.noop_hook)


def register_ddp_comm_hook(comm_hook_type, model, state=None):
    """Gives a DistributedDataParallel one of the hooks; state is their process group, None for the default one."""
    comm_hook_type.value(model=model, state=state)
