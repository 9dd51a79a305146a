"""torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook: after some iterations gradients are averaged within a
small group alone, or not at all."""

from taper import distributed as dist
from taper.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from taper.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """subgroup None: the ranks of this machine."""

    def __init__(self, process_group, subgroup, start_localSGD_iter, post_local_gradient_allreduce=True):
        self.process_group, self.subgroup, self.start_localSGD_iter = process_group, subgroup, start_localSGD_iter
        self.post_local_gradient_allreduce, self.iter = post_local_gradient_allreduce, 0

    def maybe_increase_iter(self, bucket):
        if bucket.is_last():
            self.iter += 1

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name not in ("process_group", "subgroup")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.process_group, self.subgroup = dist.group.WORLD, None


def post_localSGD_hook(state, bucket):
    """Averages over all ranks at first, then over the subgroup."""
    first = state.iter < state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if first:
        return allreduce_hook(state.process_group if state.process_group is not None else dist.group.WORLD, bucket)
    if not state.post_local_gradient_allreduce:
        return noop_hook(None, bucket)
    if state.subgroup is None:
        state.subgroup, _ = dist.new_subgroups()
    return allreduce_hook(state.subgroup, bucket)
