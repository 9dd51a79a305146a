"""torch.optim.swa_utils: averages of a model's weights over a training, and the schedule that goes with them."""

import math
from copy import deepcopy

import taper
from taper.nn.modules.module import Module
from taper.optim.lr_scheduler import LRScheduler, _format_param

__all__ = [
    "AveragedModel",
    "update_bn",
    "SWALR",
    "get_ema_multi_avg_fn",
    "get_swa_multi_avg_fn",
    "get_ema_avg_fn",
    "get_swa_avg_fn",
]


def _mix(average, current, weight):
    """average moves to current by weight, in place; whole numbers are rounded down."""
    if average.is_floating_point() or average.is_complex():
        average.lerp_(current.to(average.dtype), weight)
    else:
        average.copy_(average * (1 - weight) + current * weight)


def _decay(decay):
    """The weight of a new tensor whose past counts `decay`."""
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")
    return lambda _: 1 - decay


def _alike(count):
    """The weight of one more tensor, where all that came count alike."""
    return 1 / (float(count) + 1)


def _in_place(name, weight):
    """The function that averages lists of tensors in place, a new one counting weight(how many came before)."""

    @taper.no_grad()
    def update(averages, current, count):
        share = weight(count)
        for pair in zip(averages, current):
            _mix(*pair, share)

    update.__name__ = name
    return update


def get_ema_multi_avg_fn(decay=0.999):
    """Averages lists of tensors in place: what came before counts `decay`, the new one the rest."""
    return _in_place("ema_update", _decay(decay))


def get_swa_multi_avg_fn():
    """Averages lists of tensors in place: all that came count alike."""
    return _in_place("swa_update", _alike)


def get_ema_avg_fn(decay=0.999):
    """The average of two tensors in which the first counts `decay`."""
    new = _decay(decay)(None)
    return taper.no_grad()(lambda ema_param, current_param, num_averaged: ema_param * decay + current_param * new)


def get_swa_avg_fn():
    """The average of an average and one more tensor."""
    return taper.no_grad()(
        lambda averaged_param, current_param, num_averaged: (
            (current_param - averaged_param) / (num_averaged + 1) + averaged_param
        )
    )


class AveragedModel(Module):
    """A copy of a model whose weights are averages of the model's, taken by update_parameters()."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if None not in (avg_fn, multi_avg_fn):
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        copy = deepcopy(model)
        self.module = copy if device is None else copy.to(device)
        self.register_buffer("n_averaged", taper.tensor(0, dtype=taper.long, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        """The averaged model's answer."""
        averaged = self.module
        return averaged(*args, **kwargs)

    def update_parameters(self, model):
        """Takes the model's weights into the averages."""
        mine, theirs = list(self.module.parameters()), list(model.parameters())
        buffers = list(zip(self.module.buffers(), model.buffers()))
        if self.use_buffers:
            mine, theirs, buffers = mine + [b for b, _ in buffers], theirs + [b for _, b in buffers], []
        averages = [t.detach() for t in mine]
        self._average(averages, [t.detach().to(average.device) for t, average in zip(theirs, averages)])
        for copy, b in buffers:
            copy.detach().copy_(b.detach())
        self.n_averaged.add_(1)

    def _average(self, averages, current):
        if self.n_averaged and not self.avg_fn:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averages, current, self.n_averaged)
            return
        for average, t in zip(averages, current):
            average.copy_(self.avg_fn(average, t, self.n_averaged.to(average.device)) if self.n_averaged else t)


@taper.no_grad()
def update_bn(loader, model, device=None):
    """Computes the running statistics of the model's batch norms anew from the loader's data: without a momentum they
    are plain means."""
    from taper.nn.modules.batchnorm import _BatchNorm

    norms = [(norm, norm.momentum) for norm in model.modules() if isinstance(norm, _BatchNorm)]
    for norm, _ in norms:
        norm.reset_running_stats()
        norm.momentum = None
    if not norms:
        return
    mode = model.training
    model.train()
    for data in loader:
        batch = data[0] if isinstance(data, (list, tuple)) else data
        model(batch if device is None else batch.to(device))
    for norm, momentum in norms:
        norm.momentum = momentum
    model.train(mode)


class SWALR(LRScheduler):
    """From the rate that the optimiser has to swa_lr in anneal_epochs epochs, then constant."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        for rate, group in zip(_format_param("swa_lr", optimizer, swa_lr), optimizer.param_groups):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    @property
    def anneal_func(self):
        """How far the rate has gone at a share t of the way."""
        return self._linear_anneal if self._anneal_strategy == "linear" else self._cosine_anneal

    @staticmethod
    def _linear_anneal(t):
        return t

    @staticmethod
    def _cosine_anneal(t):
        return 0.5 - 0.5 * math.cos(math.pi * t)

    @staticmethod
    def _get_initial_lr(lr, swa_lr, alpha):
        return swa_lr if alpha == 1 else (lr - alpha * swa_lr) / (1 - alpha)

    def get_lr(self):
        self._warn_outside_step()
        step = max(self._step_count - 1, 0 if self.anneal_epochs else 1)
        before, now = (self.anneal_func(max(0, min(1, s / max(1, self.anneal_epochs)))) for s in (step - 1, step))
        return [
            group["swa_lr"] * now + self._get_initial_lr(group["lr"], group["swa_lr"], before) * (1 - now)
            for group in self.optimizer.param_groups
        ]
