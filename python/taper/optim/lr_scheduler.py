"""torch.optim.lr_scheduler: learning rates that follow a plan. A schedule is stepped after the optimiser; each has a
recursive form, which goes on from the rate that the optimiser has now and so can be combined with others, and mostly a
closed form, for steps to a given epoch. The formulas are the library's (src/optim/rates.c), which C's schedules use
too."""

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from math import inf

from taper import _C
from taper.optim._cycles import CyclicLR, OneCycleLR  # noqa: F401
from taper.optim._schedule import (  # noqa: F401
    EPOCH_DEPRECATION_WARNING,
    LRScheduler,
    _ClosedFormula,
    _enable_get_lr_call,
    _format_param,
    _Formula,
    _initial_mode,
    _param_groups_val_list,
    _update_param_group_val,
)
from taper.optim.optimizer import Optimizer

__all__ = [
    "LambdaLR",
    "MultiplicativeLR",
    "StepLR",
    "MultiStepLR",
    "ConstantLR",
    "LinearLR",
    "ExponentialLR",
    "SequentialLR",
    "CosineAnnealingLR",
    "ChainedScheduler",
    "ReduceLROnPlateau",
    "CyclicLR",
    "CosineAnnealingWarmRestarts",
    "OneCycleLR",
    "PolynomialLR",
    "LRScheduler",
]


class _LRScheduler(LRScheduler):
    """The base's old name."""


class _Lambdas(LRScheduler):
    """One function for all groups, or one for each."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.optimizer = optimizer
        n = len(optimizer.param_groups)
        self.lr_lambdas = [*lr_lambda] if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * n
        if len(self.lr_lambdas) != n:
            raise ValueError(f"Expected {n} lr_lambdas, but got {len(lr_lambda)}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self):
        """Everything but the optimiser; of the functions only what callable objects hold, since functions cannot be
        saved."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [
            None if isinstance(fn, types.FunctionType) else fn.__dict__.copy() for fn in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() gave."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for fn, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if saved is not None:
                fn.__dict__.update(saved)


class LambdaLR(_Lambdas):
    """The initial rate times a function of the epoch."""

    def get_lr(self):
        self._warn_outside_step()
        return [base * fn(self.last_epoch) for fn, base in zip(self.lr_lambdas, self.base_lrs)]


class MultiplicativeLR(_Lambdas):
    """The last rate times a function of the epoch."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        for fn in lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda]:
            if not callable(fn):
                raise TypeError(f"lr_lambda should be a function, but got {type(fn).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self):
        self._warn_outside_step()
        if self._is_initial:
            return _param_groups_val_list(self.optimizer, "lr")
        return [group["lr"] * fn(self.last_epoch) for fn, group in zip(self.lr_lambdas, self.optimizer.param_groups)]


class StepLR(_ClosedFormula):
    """Times gamma every step_size epochs."""

    _kind, _numbers = "StepLR", ("step_size", "gamma")

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)


class MultiStepLR(_ClosedFormula):
    """Times gamma at each of the milestones."""

    _kind, _numbers = "MultiStepLR", ("gamma",)

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _milestones(self, closed):
        """Sorted whole numbers. A step never falls on a fraction of an epoch; in the closed form it counts after it."""
        whole = [(at, math.ceil(at)) for at in sorted(self.milestones.elements())]
        return [up for at, up in whole if closed or at == up]


class ConstantLR(_ClosedFormula):
    """Times factor for total_iters epochs."""

    _kind, _numbers = "ConstantLR", ("factor", "total_iters")

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if not 0 <= factor <= 1.0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)


class LinearLR(_ClosedFormula):
    """Times a factor that goes from start_factor to end_factor in total_iters epochs."""

    _kind, _numbers = "LinearLR", ("start_factor", "end_factor", "total_iters")

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        if not 0 < start_factor <= 1.0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)


class ExponentialLR(_ClosedFormula):
    """Times gamma every epoch."""

    _kind, _numbers = "ExponentialLR", ("gamma",)

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)


class PolynomialLR(_ClosedFormula):
    """Down to zero in total_iters epochs, by a power of what is left of them."""

    _kind, _numbers = "PolynomialLR", ("total_iters", "power")

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)


class CosineAnnealingLR(_ClosedFormula):
    """Half a cosine from the initial rate to eta_min in T_max epochs, and back."""

    _kind, _numbers = "CosineAnnealingLR", ("T_max", "eta_min")

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)


class CosineAnnealingWarmRestarts(_Formula):
    """Half a cosine down to eta_min, again and again, each T_mult times as long as the one before."""

    _kind, _numbers = "CosineAnnealingWarmRestarts", ("T_0", "T_mult", "eta_min")

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        for what, value in (("positive integer T_0", T_0), ("integer T_mult >= 1", T_mult)):
            if not (isinstance(value, int) and value >= 1):
                raise ValueError(f"Expected {what}, but got {value}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min, self.T_cur = T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def step(self, epoch=None):
        """Sets the rates for the next epoch, or for the given one, which may be a fraction."""
        _C._graph_break("a schedule takes a step")
        if epoch is None and self.last_epoch >= 0:
            whole = isinstance(self.T_cur, int)
            target = math.nan
        else:
            epoch = epoch or 0
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            whole = isinstance(epoch, int) and (self.T_mult == 1 or epoch < self.T_0)
            target = epoch
        last, place, length = _C._restarts_move(self._options(), self.last_epoch, self.T_cur, self.T_i, target)
        self.last_epoch, self.T_cur, self.T_i = int(last), int(place) if whole else place, int(length)
        with _enable_get_lr_call(self):
            self._set(self.get_lr())


class ReduceLROnPlateau(LRScheduler):
    """Times factor whenever a figure has not become better for more than `patience` epochs."""

    def __init__(
        self,
        optimizer,
        mode="min",
        factor=0.1,
        patience=10,
        threshold=1e-4,
        threshold_mode="rel",
        cooldown=0,
        min_lr=0,
        eps=1e-8,
    ):
        if not factor < 1.0:
            raise ValueError("Factor should be < 1.0.")
        self.factor = factor
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        n = len(optimizer.param_groups)
        several = isinstance(min_lr, (list, tuple))
        if several and len(min_lr) != n:
            raise ValueError(f"expected {n} min_lrs, got {len(min_lr)}")
        self.default_min_lr = None if several else min_lr
        self.min_lrs = list(min_lr) if several else [min_lr] * n
        self.patience, self.cooldown, self.eps, self.last_epoch = patience, cooldown, eps, 0
        self._last_lr = _param_groups_val_list(optimizer, "lr")
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode, threshold, threshold_mode):
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.mode_worse = inf if mode == "min" else -inf
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode

    def _reset(self):
        """Begins to compare anew."""
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    def step(self, metrics, epoch=None):
        """Looks at the epoch's figure and reduces the rates if it is time."""
        _C._graph_break("a schedule takes a step")
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        figure, self.last_epoch = float(metrics), self.last_epoch + 1 if epoch is None else epoch
        better = self._is_better(figure, self.best)
        self.best = figure if better else self.best
        reduce, self.num_bad_epochs, self.cooldown_counter = _C._plateau_count(
            {"patience": self.patience, "cooldown": self.cooldown}, better, self.num_bad_epochs, self.cooldown_counter
        )
        if reduce:
            self._reduce_lr(self.last_epoch)
        self._last_lr = _param_groups_val_list(self.optimizer, "lr")

    def _reduce_lr(self, epoch):
        missing = len(self.optimizer.param_groups) - len(self.min_lrs)
        if missing:
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(self.optimizer.param_groups)}) differs from "
                    f"when `ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param "
                    "group being added to the optimizer. Please modify the `min_lrs` field to match the length of "
                    "the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(self.optimizer.param_groups)
        for group, least in zip(self.optimizer.param_groups, self.min_lrs):
            old = float(group["lr"])
            new = _C._plateau_reduced({"factor": self.factor, "min_lr": least, "eps": self.eps}, old)
            if new != old:
                _update_param_group_val(group, "lr", new)

    @property
    def in_cooldown(self):
        """Is it too early to compare again?"""
        return self.cooldown_counter > 0

    def _is_better(self, a, best):
        return _C._plateau_is_better({"threshold": self.threshold}, self.mode, self.threshold_mode, a, best)

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() gave."""
        self.__dict__.update(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)


class _Several(LRScheduler):
    """Schedules made of schedules: their states are a list in this one's."""

    def state_dict(self):
        """Everything but the optimiser, with the schedules' own states."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [schedule.state_dict() for schedule in self._schedulers]
        return state

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() gave."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for schedule, saved in zip(self._schedulers, state_dict["_schedulers"]):
            schedule.load_state_dict(saved)

    def _same_optimizer(self, optimizer, schedule, i):
        if optimizer != schedule.optimizer:
            raise ValueError(
                f"{type(self).__name__} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(schedule).__name__} at index {i} has {schedule.optimizer}, which is different from "
                f"{type(optimizer).__name__}."
            )


class SequentialLR(_Several):
    """One schedule after the other, from one milestone to the next."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        for i, schedule in enumerate(schedulers):
            if not hasattr(schedule, "optimizer"):
                raise TypeError(f"{type(self).__name__} at index {i} should have `optimizer` as its attribute.")
            if isinstance(schedule, ReduceLROnPlateau):
                raise ValueError(
                    f"{type(self).__name__} does not support `ReduceLROnPlateau` scheduler as it requires additional "
                    f"kwargs to be specified when calling `step`, but got one at index {i} in the given schedulers "
                    "sequence."
                )
            self._same_optimizer(optimizer, schedule, i)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._schedulers, self._milestones, self.last_epoch, self.optimizer = (
            schedulers,
            milestones,
            last_epoch + 1,
            optimizer,
        )
        for group in optimizer.param_groups:
            _update_param_group_val(group, "lr", group["initial_lr"])
        self.recursive_undo()
        self._schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def recursive_undo(self, sched=None):
        """Takes back the first step that each schedule took when it was made."""
        schedule = self if sched is None else sched
        if hasattr(schedule, "_schedulers"):
            for inner in schedule._schedulers:
                self.recursive_undo(inner)
        elif hasattr(schedule, "last_epoch"):
            schedule.last_epoch -= 1

    def step(self):
        """Steps the schedule whose turn it is."""
        _C._graph_break("a schedule takes a step")
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        schedule = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            schedule._update_lr(0)
        else:
            schedule.step()
        self._last_lr = schedule.get_last_lr()


class ChainedScheduler(_Several):
    """Several schedules, all stepped each time."""

    def __init__(self, schedulers, optimizer=None):
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        for i, schedule in enumerate(schedulers):
            if not hasattr(schedule, "optimizer"):
                raise TypeError(f"{type(self).__name__} at index {i} should have `optimizer` as its attribute.")
            if isinstance(schedule, ReduceLROnPlateau):
                raise ValueError(
                    f"{type(self).__name__} does not support `ReduceLROnPlateau` scheduler as it requires additional "
                    f"kwargs to be specified when calling `step`, but got one at index {i} in the given schedulers "
                    "sequence."
                )
            self._same_optimizer(optimizer, schedule, i)
        self._schedulers, self.optimizer = schedulers, optimizer
        self._last_lr = _param_groups_val_list(optimizer, "lr")

    def step(self):
        """Steps them all."""
        for schedule in self._schedulers:
            schedule.step()
        self._last_lr = _param_groups_val_list(self.optimizer, "lr")
