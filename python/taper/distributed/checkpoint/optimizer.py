"""torch.distributed.checkpoint.optimizer: the state of an optimiser over a sharded model, from a checkpoint."""

from taper.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from taper.distributed.checkpoint.state_dict_loader import load

__all__ = ["load_sharded_optimizer_state_dict"]


def load_sharded_optimizer_state_dict(model_state_dict, optimizer_key, storage_reader, planner=None):
    """{optimizer_key: state}, whole on every rank: FSDP.optim_state_dict_to_load takes this rank's parts of it."""
    found = {}
    load(found, storage_reader=storage_reader, planner=planner or _EmptyStateDictLoadPlanner(keys={optimizer_key}))
    return found
