"""torch.optim.swa_utils: averages of a model's weights over a training, and the schedule that goes with them."""
import math
from copy import deepcopy
from itertools import chain

import taper
from taper.nn.modules.module import Module
from taper.optim.lr_scheduler import LRScheduler, _format_param

__all__ = ["AveragedModel", "update_bn", "SWALR", "get_ema_multi_avg_fn", "get_swa_multi_avg_fn", "get_ema_avg_fn", "get_swa_avg_fn"]


def _check_decay(decay):
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _between(average, current, weight):
    """average moves to current by weight, in place; whole numbers are rounded down."""
    if average.is_floating_point() or average.is_complex():
        average.lerp_(current.to(average.dtype), weight)
    else:
        average.copy_(average * (1 - weight) + current * weight)


def get_ema_multi_avg_fn(decay=0.999):
    """Averages lists of tensors in place: what came before counts `decay`, the new one the rest."""
    _check_decay(decay)

    @taper.no_grad()
    def ema_update(ema_param_list, current_param_list, _):
        for average, current in zip(ema_param_list, current_param_list):
            _between(average, current, 1 - decay)
    return ema_update


def get_swa_multi_avg_fn():
    """Averages lists of tensors in place: all that came count alike."""
    @taper.no_grad()
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        for average, current in zip(averaged_param_list, current_param_list):
            _between(average, current, 1 / (float(num_averaged) + 1))
    return swa_update


def get_ema_avg_fn(decay=0.999):
    """The average of two tensors in which the first counts `decay`."""
    _check_decay(decay)

    @taper.no_grad()
    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param
    return ema_update


def get_swa_avg_fn():
    """The average of an average and one more tensor."""
    @taper.no_grad()
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)
    return swa_update


class AveragedModel(Module):
    """A copy of a model whose weights are averages of the model's, taken by update_parameters()."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", taper.tensor(0, dtype=taper.long, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        """The averaged model's answer."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model):
        """Takes the model's weights into the averages."""
        tensors = (lambda m: chain(m.parameters(), m.buffers())) if self.use_buffers else (lambda m: m.parameters())
        averages = [p.detach() for p in tensors(self.module)]
        current = [p.detach().to(average.device) for p, average in zip(tensors(model), averages)]
        if self.n_averaged == 0:
            for average, p in zip(averages, current):
                average.copy_(p)
        elif self.avg_fn is not None:
            for average, p in zip(averages, current):
                average.copy_(self.avg_fn(average, p, self.n_averaged.to(average.device)))
        else:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averages, current, self.n_averaged)
        if not self.use_buffers:
            for average, b in zip(self.module.buffers(), model.buffers()):
                average.detach().copy_(b.detach().to(average.device))
        self.n_averaged += 1


@taper.no_grad()
def update_bn(loader, model, device=None):
    """Computes the running statistics of the model's batch norms anew from the loader's data."""
    from taper.nn.modules.batchnorm import _BatchNorm
    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    for data in loader:
        if isinstance(data, (list, tuple)):
            data = data[0]
        model(data if device is None else data.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the rate that the optimiser has to swa_lr in anneal_epochs epochs, then constant."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        for rate, group in zip(_format_param("swa_lr", optimizer, swa_lr), optimizer.param_groups):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._set_anneal_func(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _set_anneal_func(self, anneal_strategy):
        self._anneal_strategy = anneal_strategy
        self.anneal_func = self._cosine_anneal if anneal_strategy == "cos" else self._linear_anneal

    @staticmethod
    def _linear_anneal(t):
        return t

    @staticmethod
    def _cosine_anneal(t):
        return (1 - math.cos(math.pi * t)) / 2

    @staticmethod
    def _get_initial_lr(lr, swa_lr, alpha):
        return swa_lr if alpha == 1 else (lr - alpha * swa_lr) / (1 - alpha)

    def get_lr(self):
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = (self.anneal_func(max(0, min(1, s / max(1, self.anneal_epochs)))) for s in (step - 1, step))
        return [group["swa_lr"] * now + self._get_initial_lr(group["lr"], group["swa_lr"], before) * (1 - now) for group in self.optimizer.param_groups]

    def state_dict(self):
        """Everything but the optimiser and the function."""
        return {key: value for key, value in super().state_dict().items() if key != "anneal_func"}

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() gave."""
        super().load_state_dict(state_dict)
        self._set_anneal_func(self._anneal_strategy)
