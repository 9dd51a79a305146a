"""torch.distributed.algorithms.join: ranks that run out of inputs answer the collectives of those that have not.

In each iteration every rank says whether it still works (notify_join_context, or the loop at the region's end); a rank
that does not runs the main hooks of what it joined, until nobody works any more."""

import warnings
from collections import namedtuple

__all__ = ["Join", "JoinHook", "Joinable"]

_Config = namedtuple("_Config", ["enable", "throw_on_early_termination", "is_first_joinable"])
_OFF = _Config(False, False, False)


class JoinHook:
    """What a rank does while others still work, and once at the end."""

    def main_hook(self):
        """Answers the collectives of one iteration."""

    def post_hook(self, is_last_joiner):
        """Everybody has joined."""


class Joinable:
    """Something whose iterations have collectives: DistributedDataParallel, ZeroRedundancyOptimizer."""

    def __init__(self):
        super().__init__()
        self._join_config = _OFF

    def join_hook(self, **kwargs):
        raise NotImplementedError

    @property
    def join_device(self):
        raise NotImplementedError

    @property
    def join_process_group(self):
        raise NotImplementedError


class Join:
    """with Join([model, optimizer]): a loop of as many iterations as this rank has inputs for."""

    def __init__(self, joinables, enable=True, throw_on_early_termination=False, **kwargs):
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables, self._enable, self._throw = joinables, enable, throw_on_early_termination
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        first = joinables[0]
        for joinable in joinables[1:]:
            if joinable.join_process_group is not first.join_process_group:
                raise ValueError("Using join context manager with multiple process groups")
        self._group, self._device = first.join_process_group, first.join_device

    def __enter__(self):
        for i, joinable in enumerate(self._joinables):
            joinable._join_config = _Config(self._enable, self._throw, i == 0)
            joinable._still_has_inputs = True
        return self

    def __exit__(self, kind, value, trace):
        try:
            if self._enable and not kind:
                self._answer()
        finally:
            for joinable in self._joinables:
                joinable._join_config, joinable._still_has_inputs = _OFF, True

    def _answer(self):
        for joinable in self._joinables:
            joinable._still_has_inputs = False
        rounds = 0
        while self._still_working(self._device, self._group, 0):
            if self._throw:
                self._sum(self._device, self._group, 1)  # tells those who work that this rank does not
                raise RuntimeError("Rank exhausted all inputs.")
            if rounds == 1000:
                warnings.warn(
                    "Detected uneven input skew of greater than 1000. This means that this rank has at least 1000 "
                    "fewer inputs than others; it shadows their collectives, which takes time."
                )
            for hook in self._hooks:
                hook.main_hook()
            rounds += 1
        for hook in self._hooks:
            hook.post_hook(rounds == 0)

    @staticmethod
    def _sum(device, group, mine):
        from taper import distributed as dist
        from taper import tensor

        total = tensor([mine], device=device)
        dist.all_reduce(total, group=group)
        return int(total.item())

    @staticmethod
    def _still_working(device, group, mine):
        return Join._sum(device, group, mine)

    @staticmethod
    def notify_join_context(joinable):
        """Says that this rank still works: how many do. None where there is no region, or another joinable has said it
        already."""
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        device, group = joinable.join_device, joinable.join_process_group
        working = Join._still_working(device, group, 1)
        if config.throw_on_early_termination:
            from taper import distributed as dist

            if working < dist.get_world_size(group) and Join._sum(device, group, 0):
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return working
