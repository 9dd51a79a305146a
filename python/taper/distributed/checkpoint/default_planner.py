"""torch.distributed.checkpoint.default_planner: the planners that are used where none is given."""

from taper.distributed.checkpoint.planner import LoadPlanner, SavePlanner

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]


class DefaultSavePlanner(SavePlanner):
    def __init__(
        self,
        flatten_state_dict=True,
        flatten_sharded_tensors=True,
        dedup_replicated_tensors=None,
        dedup_save_to_lowest_rank=False,
        enable_plan_caching=False,
    ):
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank


class DefaultLoadPlanner(LoadPlanner):
    """allow_partial_load: names that the checkpoint lacks are left as they are."""

    def __init__(self, flatten_state_dict=True, flatten_sharded_tensors=True, allow_partial_load=False):
        self.allow_partial_load = allow_partial_load


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Loads what the checkpoint holds into an empty state dict: all of it, or what lies under the names in `keys`."""

    def __init__(self, keys=None, *args, **kwargs):
        self.keys = keys
        super().__init__(*args, **kwargs)

    def wants(self, name, path):
        """Is this part asked for, by its own name or by the beginning of its path?"""
        if self.keys is None or name in self.keys:
            return True
        starts = [str(path[0])]
        for part in path[1:]:
            starts.append(f"{starts[-1]}.{part}")
        return any(start in self.keys for start in starts)
