"""torch.distributed.algorithms._checkpoint.checkpoint_wrapper: modules that keep their inputs alone and compute the
rest again in the backward."""

from enum import Enum, auto
from functools import partial

from taper.autograd.graph import save_on_cpu
from taper.distributed._wrapper import Wrapper
from taper.utils.checkpoint import checkpoint

__all__ = [
    "ActivationWrapper",
    "CheckpointImpl",
    "CheckpointWrapper",
    "OffloadWrapper",
    "apply_activation_checkpointing",
    "checkpoint_wrapper",
    "offload_wrapper",
]

_INNER = _CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _INNER + "."


class CheckpointImpl(Enum):
    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(Wrapper):
    """A module under a name that state dicts do not show."""

    _inner = _INNER

    def __init__(self, mod):
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(self._without_wrapper)
        self.register_load_state_dict_pre_hook(self._with_wrapper)

    @staticmethod
    def _without_wrapper(module, state_dict, prefix, *rest):
        for name in [name for name in state_dict if name.startswith(f"{prefix}{_INNER}.")]:
            state_dict[name.replace(f"{prefix}{_INNER}.", prefix, 1)] = state_dict.pop(name)

    @staticmethod
    def _with_wrapper(module, state_dict, prefix, *rest):
        for name in [
            name for name in state_dict if name.startswith(prefix) and not name.startswith(f"{prefix}{_INNER}.")
        ]:
            state_dict[f"{prefix}{_INNER}.{name[len(prefix) :]}"] = state_dict.pop(name)

    def named_parameters(self, *args, **kwargs):
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace(_INNER + ".", ""), p


class CheckpointWrapper(ActivationWrapper):
    """The module, computed again in the backward."""

    def __init__(self, mod, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
        super().__init__(mod)
        how = {} if checkpoint_fn else {"use_reentrant": checkpoint_impl == CheckpointImpl.REENTRANT}
        self.checkpoint_impl, self.checkpoint_fn = (
            checkpoint_impl,
            partial(checkpoint_fn or checkpoint, **how, **checkpoint_fn_kwargs),
        )

    def forward(self, *args, **kwargs):
        return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)


class OffloadWrapper(ActivationWrapper):
    """The module, its activations kept on the CPU until the backward."""

    def forward(self, *args, **kwargs):
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


def offload_wrapper(module):
    """The module, its activations on the CPU."""
    return OffloadWrapper(module)


def checkpoint_wrapper(module, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
    """The module, wrapped."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model, checkpoint_wrapper_fn=checkpoint_wrapper, check_fn=lambda _: True, auto_wrap_policy=None
):
    """Wraps the modules inside a model that check_fn (or a policy of FSDP's) names, in place."""
    if auto_wrap_policy is not None:
        from taper.distributed.fsdp.wrap import wrap_children

        wrap_children(model, auto_wrap_policy, checkpoint_wrapper_fn)
        return
    for name, child in list(model.named_children()):
        apply_activation_checkpointing(child, checkpoint_wrapper_fn, check_fn)
        if check_fn(child):
            setattr(model, name, checkpoint_wrapper_fn(child))
