"""torch.distributed.optim.ZeroRedundancyOptimizer: each rank steps some of the parameters, and keeps the state of those
alone; then all get them."""

from taper import distributed as dist
from taper._C import Tensor
from taper.distributed.algorithms.join import Join, Joinable, JoinHook
from taper.nn.parallel._verify import broadcast_coalesced
from taper.optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class _JoinHook(JoinHook):
    """A rank without inputs still steps its part."""

    def __init__(self, zero):
        self.zero = zero

    def main_hook(self):
        self.zero.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimiser of the given class over this rank's part of the parameters. Gradients must be the same on all ranks
    already, as after DistributedDataParallel's backward."""

    def __init__(
        self,
        params,
        optimizer_class,
        process_group=None,
        parameters_as_bucket_view=False,
        overlap_with_ddp=False,
        **defaults,
    ):
        self.process_group = process_group if process_group is not None else dist.distributed_c10d._get_default_group()
        self.rank, self.world_size = dist.get_rank(self.process_group), dist.get_world_size(self.process_group)
        self._make_local = lambda groups: optimizer_class(groups, **defaults)
        self._all_states, self._ready = [], False
        Joinable.__init__(self)
        Optimizer.__init__(self, params, defaults)
        self._ready = True
        self._rebuild()

    # ---- Who has what ----
    def _partition(self):
        """For each rank the groups of its parameters: the largest first, to whoever has least. The same on all
        ranks."""
        load, owner = [0] * self.world_size, {}
        for p in sorted((p for group in self.param_groups for p in group["params"]), key=lambda p: -p.numel()):
            rank = load.index(min(load))
            owner[p] = rank
            load[rank] += p.numel() if p.requires_grad else 0
        return [
            [{**group, "params": [p for p in group["params"] if owner[p] == rank]} for group in self.param_groups]
            for rank in range(self.world_size)
        ]

    def _rebuild(self):
        self._parts = self._partition()
        had = getattr(self, "optim", None)
        self.optim = self._make_local(
            [group for group in self._parts[self.rank] if group["params"]] or [{"params": [_nothing()]}]
        )
        if had is not None:
            self.optim.state.update(
                {
                    p: state
                    for p, state in had.state.items()
                    if any(p is q for group in self.optim.param_groups for q in group["params"])
                }
            )
        self._defaults_to_groups()

    def _defaults_to_groups(self):
        """Options that the class has by itself appear in the groups, where schedules look for them."""
        for key, value in self.optim.defaults.items():
            self.defaults.setdefault(key, value)
            for group in self.param_groups:
                group.setdefault(key, value)

    def _local_groups(self):
        """This rank's groups, beside those they are parts of."""
        mine = [group for group in self._parts[self.rank] if group["params"]]
        whole = [group for group, part in zip(self.param_groups, self._parts[self.rank]) if part["params"]]
        return zip(whole, self.optim.param_groups) if mine else ()

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        if self._ready:
            self._rebuild()

    # ---- A step ----
    def step(self, closure=None, **kwargs):
        Join.notify_join_context(self)
        for group, local in self._local_groups():  # schedules write into the whole's groups
            local.update({key: value for key, value in group.items() if key != "params"})
        loss = self.optim.step(closure, **kwargs) if closure is not None else self.optim.step(**kwargs)
        for group, local in self._local_groups():
            group.update({key: value for key, value in local.items() if key != "params"})
        for rank, groups in enumerate(self._parts):
            params = [p for group in groups for p in group["params"]]
            if params:
                broadcast_coalesced(params, rank, self.process_group)
        self.state = self.optim.state
        return loss

    # ---- States ----
    def _numbers(self):
        return {p: i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}

    def consolidate_state_dict(self, to=0):
        """Brings all ranks' state to one, which can then call state_dict()."""
        number = self._numbers()
        mine = {
            number[p]: {
                key: value.detach().cpu() if isinstance(value, Tensor) else value for key, value in state.items()
            }
            for p, state in self.optim.state.items()
            if p in number
        }
        every = [None] * self.world_size if self.rank == to else None
        dist.gather_object(mine, every, dst=dist.get_global_rank(self.process_group, to), group=self.process_group)
        self._all_states = every or []

    def state_dict(self):
        """The whole state, on the rank that consolidate_state_dict brought it to."""
        if not self._all_states:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save the global "
                "state."
            )
        number = self._numbers()
        groups = [
            {
                **{key: value for key, value in group.items() if key != "params"},
                "params": [number[p] for p in group["params"]],
            }
            for group in self.param_groups
        ]
        return {
            "state": {key: value for states in self._all_states for key, value in states.items()},
            "param_groups": groups,
        }

    def load_state_dict(self, state_dict):
        """A whole state: each rank takes what is of its part."""
        number = self._numbers()
        own = {p for group in self.optim.param_groups for p in group["params"]}
        for group, saved in zip(self.param_groups, state_dict["param_groups"]):
            group.update({key: value for key, value in saved.items() if key != "params"})
        local_number = {p: i for i, p in enumerate(p for group in self.optim.param_groups for p in group["params"])}
        told = self.optim.state_dict()
        self.optim.load_state_dict(
            {
                "state": {
                    local_number[p]: state_dict["state"][number[p]] for p in own if number.get(p) in state_dict["state"]
                },
                "param_groups": told["param_groups"],
            }
        )
        self.state = self.optim.state

    # ---- Ranks that run out of inputs ----
    def join_hook(self, **kwargs):
        return _JoinHook(self)

    @property
    def join_device(self):
        return next(p.device for group in self.param_groups for p in group["params"])

    @property
    def join_process_group(self):
        return self.process_group


def _nothing():
    """A parameter for ranks that have none: optimisers want one."""
    from taper import empty
    from taper.nn import Parameter

    return Parameter(empty(0))
