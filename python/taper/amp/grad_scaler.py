"""Scaling the loss so that small gradients survive a 16-bit float, and undoing it before the optimiser's step."""

import warnings
from enum import Enum
from functools import wraps
from types import SimpleNamespace

from taper import _C
from taper._C import Tensor

__all__ = ["OptState", "GradScaler"]


_KNOBS = ("_growth_factor", "_backoff_factor", "_growth_interval")


class OptState(Enum):
    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _scaled(outputs, scale):
    """The outputs, however nested, times the scale."""
    if isinstance(outputs, Tensor):
        return outputs * scale
    if hasattr(outputs, "__iter__"):
        items = [_scaled(o, scale) for o in outputs]
        return type(outputs)(items) if isinstance(outputs, (list, tuple)) else iter(items)
    raise ValueError("outputs must be a Tensor or an iterable of Tensors")


def _multiply(grads, factor):
    """Multiplies gradients in place by a number (or a tensor of one), those of a device together. {device: 1 where one
    of them was not finite}"""
    from taper import no_grad, tensor

    by_device = {}
    for g in grads:
        by_device.setdefault(g.device, []).append(g)
    found = {}
    with no_grad():
        for device, those in by_device.items():
            if device.type == "cpu":
                number = factor.item() if isinstance(factor, Tensor) else factor
                found[device] = tensor(float(_C._unscale_gradients(those, number)), device=device)
            else:
                found[device] = _multiply_there(those, factor, device)
    return found


def _multiply_there(grads, factor, device):
    """On a device, without waiting for it."""
    from taper import isfinite, stack

    there = factor.to(device) if isinstance(factor, Tensor) else factor
    fine = [isfinite(g).all() for g in grads]
    for g in grads:
        g.mul_(there)
    return 1.0 - stack(fine).all().float()


def _no_cuda():
    from taper import cuda

    return not cuda.is_available()


def _unless_off(otherwise):
    """A method that does its work only with scaling on; without it the call is otherwise(self, ...)."""

    def decorate(method):
        @wraps(method)
        def call(self, *args, **kwargs):
            return (method if self._enabled else otherwise)(self, *args, **kwargs)

        return call

    return decorate


def _knob(name):
    """get_NAME and set_NAME of a number."""

    def get(self):
        return self.__dict__[name]

    def put(self, value):
        self.__dict__[name] = value

    get.__name__, put.__name__ = "get" + name, "set" + name
    return get, put


class GradScaler:
    """Multiplies losses by a scale that grows while gradients stay finite and backs off when they do not."""

    def __init__(
        self,
        device="cuda",
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        lacking = enabled and device == "cuda" and _no_cuda()
        if lacking:
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
        self._device, self._enabled = device, enabled and not lacking
        if self._enabled:
            if not growth_factor > 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if not backoff_factor < 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
            self._growth_factor, self._backoff_factor, self._growth_interval = (
                growth_factor,
                backoff_factor,
                growth_interval,
            )
            self._begin(init_scale, 0)

    def _begin(self, scale, tracker):
        """The numbers to start with; the tensors are made when the first loss shows its device."""
        self._init_scale, self._init_growth_tracker = scale, tracker
        self._scale = self._growth_tracker = None
        self._per_optimizer_states = {}

    def _state_of(self, optimizer):
        return self._per_optimizer_states.setdefault(
            id(optimizer), SimpleNamespace(stage=OptState.READY, found_inf_per_device={})
        )

    def _check_scale(self, what):
        if self._scale is None:
            raise AssertionError(
                f"Attempted {what} but _scale is None.  This may indicate your script did not use scaler.scale(loss "
                "or outputs) earlier in the iteration."
            )

    def _start(self, device):
        from taper import full, int32, float32

        self._scale = full((), self._init_scale, dtype=float32, device=device)
        self._growth_tracker = full((), self._init_growth_tracker, dtype=int32, device=device)

    @_unless_off(lambda self, outputs: outputs)
    def scale(self, outputs):
        """The outputs (a tensor, or tensors in a list or tuple) times the scale."""
        if not isinstance(self._scale, Tensor):
            first = outputs
            while not isinstance(first, Tensor) and hasattr(first, "__iter__"):
                first = next(iter(first))
            if not isinstance(first, Tensor):
                raise ValueError("outputs must be a Tensor or an iterable of Tensors")
            self._start(first.device)
        return _scaled(outputs, self._scale)

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        """Multiplies the gradients of the optimiser's parameters; {device: was one not finite?}, empty without
        gradients."""
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not allow_fp16 and any(g.dtype == _C.float16 for g in grads):
            raise ValueError("Attempting to unscale FP16 gradients.")
        return _multiply(grads, inv_scale)

    @_unless_off(lambda self, optimizer: None)
    def unscale_(self, optimizer):
        """Divides the gradients of the optimiser's parameters by the scale, for those who clip or look at them before
        step()."""
        self._check_scale("unscale_")
        state = self._state_of(optimizer)
        if state.stage is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state.stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = 1.0 / self._scale.item() if self._scale.is_cpu else self._scale.reciprocal()
        state.found_inf_per_device = self._unscale_grads_(optimizer, inverse, None, False)
        state.stage = OptState.UNSCALED

    @_unless_off(lambda self, optimizer, *args, **kwargs: optimizer.step(*args, **kwargs))
    def step(self, optimizer, *args, **kwargs):
        """Unscales, unless that was done, and steps the optimiser if all gradients are finite. Returns what its step
        does, or None."""
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale("step")
        state = self._state_of(optimizer)
        if state.stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_with_scale(optimizer, state, args, kwargs)
        if state.stage is OptState.READY:
            self.unscale_(optimizer)
        if not state.found_inf_per_device:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        skip = any(found.item() for found in state.found_inf_per_device.values())
        result = None if skip else optimizer.step(*args, **kwargs)
        state.stage = OptState.STEPPED
        return result

    def _step_with_scale(self, optimizer, state, args, kwargs):
        """An optimiser that unscales by itself is told the scale and whether gradients are finite, or is given the
        scaler."""
        from inspect import signature

        if state.stage is OptState.READY:
            grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
            state.found_inf_per_device = _multiply([g.clone() for g in grads], 1.0)
        if "grad_scaler" in signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed optimizer. In the "
                "near future GradScaler registers `grad_scale: Tensor` and `found_inf: Tensor` to the passed "
                "optimizer and let the optimizer use them directly.",
                FutureWarning,
                stacklevel=4,
            )
            kwargs["grad_scaler"] = self
            result = optimizer.step(*args, **kwargs)
        else:
            optimizer.grad_scale = self._scale if state.stage is OptState.READY else None
            optimizer.found_inf = sum(state.found_inf_per_device.values())
            try:
                result = optimizer.step(*args, **kwargs)
            finally:
                del optimizer.grad_scale, optimizer.found_inf
        state.stage = OptState.STEPPED
        return result

    @_unless_off(lambda self, new_scale=None: None)
    def update(self, new_scale=None):
        """Sets the scale for the next iteration: lower after infinite gradients, higher after enough finite ones, or as
        given."""
        self._check_scale("update")
        if new_scale is None:
            found = [f for state in self._per_optimizer_states.values() for f in state.found_inf_per_device.values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(any(f.item() for f in found))
        else:
            self._set_scale(new_scale)
        self._per_optimizer_states = {}

    def _set_scale(self, given):
        one = isinstance(given, Tensor) and given.dtype == _C.float32 and given.numel() == 1 and not given.requires_grad
        if not one and not isinstance(given, float):
            raise AssertionError(
                "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
                "requires_grad=False."
            )
        self._scale.fill_(given.item() if one else given)

    def _adapt(self, found_inf):
        from taper import _amp_update_scale_, tensor

        _amp_update_scale_(
            self._scale,
            self._growth_tracker,
            tensor(float(found_inf)),
            self._growth_factor,
            self._backoff_factor,
            self._growth_interval,
        )

    def _get_scale_async(self):
        return self._scale

    @_unless_off(lambda self: 1.0)
    def get_scale(self):
        """The scale as a float; 1.0 if scaling is off."""
        return self._init_scale if self._scale is None else self._scale.item()

    @_unless_off(lambda self: 0)
    def _get_growth_tracker(self):
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    get_growth_factor, set_growth_factor = _knob("_growth_factor")
    get_backoff_factor, set_backoff_factor = _knob("_backoff_factor")
    get_growth_interval, set_growth_interval = _knob("_growth_interval")

    def is_enabled(self):
        return self._enabled

    @_unless_off(lambda self: {})
    def state_dict(self):
        """The scale and what moves it; empty if scaling is off."""
        knobs = {name[1:]: self.__dict__[name] for name in _KNOBS}
        return {"scale": self.get_scale(), **knobs, "_growth_tracker": self._get_growth_tracker()}

    @_unless_off(lambda self, state_dict: None)
    def load_state_dict(self, state_dict):
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self.__dict__.update(
            {name: state_dict[name[1:]] for name in _KNOBS},
            _init_scale=state_dict["scale"],
            _init_growth_tracker=state_dict["_growth_tracker"],
        )
        for name in ("_scale", "_growth_tracker"):
            if self.__dict__[name] is not None:
                self.__dict__[name].fill_(self.__dict__["_init" + name])

    def __getstate__(self):
        """Without tensors: a copy starts where this one is."""
        if not self._enabled:
            return dict(vars(self))
        if self._per_optimizer_states:
            raise AssertionError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                "scaler.update()."
            )
        now = {"_init_scale": self.get_scale(), "_init_growth_tracker": self._get_growth_tracker()}
        return {**vars(self), **now, "_scale": None, "_growth_tracker": None}

    def _check_inf_per_device(self, optimizer):
        """Looks for infinite gradients without changing them."""
        self._check_scale("_check_inf_per_device")
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        found = self._state_of(optimizer).found_inf_per_device = _multiply(grads, 1.0)
        return found

    def _found_inf_per_device(self, optimizer):
        return self._state_of(optimizer).found_inf_per_device
