"""torch.distributed.algorithms.model_averaging.hierarchical_model_averager: small groups average often, large ones
seldom."""

from taper import distributed as dist
from taper.distributed.algorithms.model_averaging.averagers import ModelAverager
from taper.distributed.algorithms.model_averaging.utils import average_parameters_or_parameter_groups

__all__ = ["HierarchicalModelAverager"]


class HierarchicalModelAverager(ModelAverager):
    """period_group_size_dict: {period: size of the groups that average then}, both growing; the last size is that of
    the whole group."""

    def __init__(self, period_group_size_dict=None, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        self._periods, sizes = list(period_group_size_dict), list(period_group_size_dict.values())
        if self._periods[0] <= 0:
            raise ValueError("The minimum period in arg ``period_group_size_dict`` must be a positive value.")
        if sizes[-1] != dist.get_world_size(self.process_group):
            raise ValueError(
                f"The last value in arg ``period_process_group_dict`` {sizes[-1]} must be equal to the size of arg "
                f"``process_group`` {dist.get_world_size(self.process_group)}."
            )
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        self.warmup_steps, self.period_process_group_dict = warmup_steps, {}
        for period, size in period_group_size_dict.items():
            whole = size == dist.get_world_size(self.process_group)
            self.period_process_group_dict[period] = self.process_group if whole else dist.new_subgroups(size)[0]

    def _find_process_group(self):
        """The group of the longest period that divides the step."""
        return next(
            (self.period_process_group_dict[period] for period in reversed(self._periods) if self.step % period == 0),
            None,
        )

    def average_parameters(self, params):
        if self.step >= self.warmup_steps:
            group = self._find_process_group()
            if group is not None:
                average_parameters_or_parameter_groups(params, group)
        self.step += 1
