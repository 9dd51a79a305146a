"""torch.distributed.algorithms.model_averaging.averagers: when parameters are averaged."""

import warnings

from taper import distributed as dist
from taper.distributed.algorithms.model_averaging.utils import average_parameters_or_parameter_groups

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager:
    """The base of averagers: counts steps."""

    def __init__(self, process_group=None):
        self.process_group, self.step = process_group if process_group is not None else dist.group.WORLD, 0

    def average_parameters(self, params):
        raise NotImplementedError


class PeriodicModelAverager(ModelAverager):
    """Averages in every period-th step, once warmup_steps have passed."""

    def __init__(self, period, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warnings.warn(
                "When period is 1, no need to use model averaging because the communication cost of all-reducing "
                "parameters will be no less than the cost of all-reducing gradients by DistributedDataParallel in "
                "the backward pass. Therefore, only DistributedDataParallel should be used for this case."
            )
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params):
        """Of parameters or an optimiser's groups, if this step is due."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
