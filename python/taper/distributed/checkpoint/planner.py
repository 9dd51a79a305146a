"""torch.distributed.checkpoint.planner: what subclasses may change of how a state dict is cut up."""

__all__ = ["LoadPlanner", "SavePlanner"]


class SavePlanner:
    """Asked for each value before it is written."""

    def transform_object(self, name, value):
        return value


class LoadPlanner:
    """Asked for each name that a checkpoint does not have."""

    allow_partial_load = False
