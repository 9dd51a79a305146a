"""What learning-rate schedules share: the base that users derive from, and one value per group."""

import warnings
from functools import wraps
from weakref import ref

from taper import _C
from taper._C import Tensor
from taper.optim.optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form is used instead of the new chainable form, where available. Please tell Taper's maintainers if you are "
    "unable to replicate your use case."
)
_ADVICE = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def _copy(value):
    return value.clone() if isinstance(value, Tensor) else value


def _param_groups_val_list(optimizer, key):
    """One value per group; tensors are copied."""
    return [_copy(group[key]) for group in optimizer.param_groups]


def _update_param_group_val(group, key, value):
    """Sets an option; one that is a tensor stays that tensor."""
    if isinstance(group[key], Tensor):
        group[key].fill_(float(value))
    else:
        group[key] = value


def _format_param(name, optimizer, param):
    """One value per group, from one for all or a list."""
    n = len(optimizer.param_groups)
    if not isinstance(param, (list, tuple)):
        return [_copy(param) for _ in range(n)]
    if len(param) != n:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(param)} values, "
            f"param_groups has {n}."
        )
    return [_copy(value) for value in param]


class _mode:
    """Sets a flag of a schedule for a while."""

    def __init__(self, schedule, flag):
        self.schedule, self.flag = schedule, flag

    def __enter__(self):
        setattr(self.schedule, self.flag, True)

    def __exit__(self, *error):
        setattr(self.schedule, self.flag, False)


def _initial_mode(schedule):
    return _mode(schedule, "_is_initial")


def _enable_get_lr_call(schedule):
    return _mode(schedule, "_get_lr_called_within_step")


def _track_steps(optimizer):
    """Lets the optimiser remember that its step() was called, which schedules ask for."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    inner, weak = optimizer.step.__func__, ref(optimizer)

    @wraps(inner)
    def step(*args, **kwargs):
        self = weak()
        self._opt_called = True
        return inner.__get__(self, type(self))(*args, **kwargs)

    step._wrapped_by_lr_sched = True
    optimizer.step = step


class LRScheduler:
    """The base of schedules. Derive from it with a get_lr() that returns one rate per group, worked out from
    self.last_epoch and self.base_lrs or the groups' own rates."""

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer, last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copy(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    "last_epoch >= 0.\n"
                    "This typically happens when:\n"
                    "1. You're trying to resume training from a checkpoint but haven't properly loaded the optimizer "
                    "state\n"
                    "2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
                )
        self.base_lrs = _param_groups_val_list(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _track_steps(optimizer)
        self._initial_step()

    def _initial_step(self):
        self._step_count = 0
        with _initial_mode(self):
            self.step()

    def state_dict(self):
        """Everything but the optimiser."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self):
        """The rates that this schedule set last, one per group."""
        return self._last_lr

    def get_lr(self):
        """The next rates, one per group."""
        raise NotImplementedError

    def _warn_outside_step(self):
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def step(self, epoch=None):
        """Sets the rates for the next epoch, or for the given one."""
        _C._graph_break("a schedule takes a step")
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warnings.warn(
                    "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                    f"Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. {_ADVICE}",
                    UserWarning,
                    stacklevel=2,
                )
            elif not getattr(self.optimizer, "_opt_called", False):
                warnings.warn(
                    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, "
                    "you should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  "
                    "Failure to do this will result in PyTorch skipping the first value of the learning rate "
                    f"schedule. {_ADVICE}",
                    UserWarning,
                    stacklevel=2,
                )
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        with _enable_get_lr_call(self):
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                values = self._get_closed_form_lr() if hasattr(self, "_get_closed_form_lr") else self.get_lr()
        self._set(values)

    def _set(self, values):
        for group, value in zip(self.optimizer.param_groups, values):
            _update_param_group_val(group, "lr", value)
        self._last_lr = _param_groups_val_list(self.optimizer, "lr")


class _Formula(LRScheduler):
    """A schedule whose rates the library works out, from numbers that are attributes of the schedule."""

    _kind, _numbers = None, ()

    def _options(self):
        return {name: getattr(self, name) for name in self._numbers}

    def _milestones(self, closed):
        return []

    def _changed(self, closed):
        """One rate per group. The library says what becomes of a rate; the rate may be a tensor and stays one."""
        change = _C._rate_change(
            self._kind,
            self._options(),
            self._milestones(closed),
            self.last_epoch,
            getattr(self, "_step_count", 0),
            getattr(self, "T_cur", 0),
            getattr(self, "T_i", 0),
            self._is_initial,
            closed,
        )
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if change is None:
            return [_copy(rate) for rate in rates]
        by, low, from_base, rise = change
        if rise:
            return [rate + (base - low) * by for rate, base in zip(rates, self.base_lrs)]
        return [low + (rate - low) * by if low else rate * by for rate in (self.base_lrs if from_base else rates)]

    def get_lr(self):
        """The next rates, one per group."""
        self._warn_outside_step()
        return self._changed(False)


class _ClosedFormula(_Formula):
    """One that also has a closed form, for steps to a given epoch."""

    def _get_closed_form_lr(self):
        return self._changed(True)
