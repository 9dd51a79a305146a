"""torch.distributed.checkpoint.stateful: what has a state that can be taken and given back."""

from typing import Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """An object with state_dict() and load_state_dict()."""

    def state_dict(self): ...

    def load_state_dict(self, state_dict): ...
