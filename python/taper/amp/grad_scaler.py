"""Scaling the loss so that small gradients survive a 16-bit float, and undoing it before the optimiser's step."""
import warnings
from enum import Enum
from types import SimpleNamespace

from taper import _C
from taper._C import Tensor

__all__ = ["OptState", "GradScaler"]


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
    """Multiplies gradients in place, those of a device in one call. {device: 1 where one of them was not finite}"""
    from taper import tensor
    by_device = {}
    for g in grads:
        by_device.setdefault(g.device, []).append(g)
    return {device: tensor(float(_C._unscale_gradients(those, factor)), device=device) for device, those in by_device.items()}


class GradScaler:
    """Multiplies losses by a scale that grows while gradients stay finite and backs off when they do not."""

    def __init__(self, device="cuda", init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        self._device = device
        self._enabled = enabled
        if device == "cuda":
            from taper import cuda
            if enabled and not cuda.is_available():
                warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
                self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker = None
        self._per_optimizer_states = {}

    def _state_of(self, optimizer):
        return self._per_optimizer_states.setdefault(id(optimizer), SimpleNamespace(stage=OptState.READY, found_inf_per_device={}))

    def _check_scale(self, what):
        if self._scale is None:
            raise AssertionError(f"Attempted {what} but _scale is None.  This may indicate your script did not use scaler.scale(loss or outputs) earlier in the "
                                 "iteration.")

    def _start(self, device):
        from taper import full, int32, float32
        self._scale = full((), self._init_scale, dtype=float32, device=device)
        self._growth_tracker = full((), self._init_growth_tracker, dtype=int32, device=device)

    def scale(self, outputs):
        """The outputs (a tensor, or tensors in a list or tuple) times the scale."""
        if not self._enabled:
            return outputs
        if self._scale is None:
            first = outputs
            while not isinstance(first, Tensor) and hasattr(first, "__iter__"):
                first = next(iter(first))
            if not isinstance(first, Tensor):
                raise ValueError("outputs must be a Tensor or an iterable of Tensors")
            self._start(first.device)
        return _scaled(outputs, self._scale)

    def _unscale_grads_(self, optimizer, allow_fp16):
        """Divides the gradients of the optimiser's parameters by the scale; {device: was one not finite?}, empty without gradients."""
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not allow_fp16 and any(g.dtype == _C.float16 for g in grads):
            raise ValueError("Attempting to unscale FP16 gradients.")
        return _multiply(grads, 1.0 / self._scale.item())

    def unscale_(self, optimizer):
        """Divides the gradients of the optimiser's parameters by the scale, for those who clip or look at them before step()."""
        if not self._enabled:
            return
        self._check_scale("unscale_")
        state = self._state_of(optimizer)
        if state.stage is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state.stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        state.found_inf_per_device = self._unscale_grads_(optimizer, False)
        state.stage = OptState.UNSCALED

    def step(self, optimizer, *args, **kwargs):
        """Unscales, unless that was done, and steps the optimiser if all gradients are finite. Returns what its step does, or None."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale("step")
        state = self._state_of(optimizer)
        if state.stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state.stage is OptState.READY:
            self.unscale_(optimizer)
        if not state.found_inf_per_device:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        skip = any(found.item() for found in state.found_inf_per_device.values())
        result = None if skip else optimizer.step(*args, **kwargs)
        state.stage = OptState.STEPPED
        return result

    def update(self, new_scale=None):
        """Sets the scale for the next iteration: lower after infinite gradients, higher after enough finite ones, or as given."""
        if not self._enabled:
            return
        self._check_scale("update")
        if new_scale is not None:
            self._set_scale(new_scale)
        else:
            found = [f for state in self._per_optimizer_states.values() for f in state.found_inf_per_device.values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(any(f.item() for f in found))
        self._per_optimizer_states = {}

    def _set_scale(self, new_scale):
        if isinstance(new_scale, float):
            self._scale.fill_(new_scale)
            return
        why = "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with requires_grad=False."
        if not isinstance(new_scale, Tensor) or new_scale.dtype != _C.float32 or new_scale.numel() != 1 or new_scale.requires_grad:
            raise AssertionError(why)
        self._scale.copy_(new_scale)

    def _adapt(self, found_inf):
        if found_inf:
            self._scale.mul_(self._backoff_factor)
            self._growth_tracker.zero_()
            return
        run = self._growth_tracker.item() + 1
        if run == self._growth_interval:
            grown = self._scale * self._growth_factor
            if grown.isfinite().item():
                self._scale.copy_(grown)
            run = 0
        self._growth_tracker.fill_(run)

    def _get_scale_async(self):
        return self._scale

    def get_scale(self):
        """The scale as a float; 1.0 if scaling is off."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self):
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        self._growth_interval = new_interval

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def is_enabled(self):
        return self._enabled

    def state_dict(self):
        """The scale and what moves it; empty if scaling is off."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": self._get_growth_tracker()}

    def load_state_dict(self, state_dict):
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self):
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError("A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after scaler.update().")
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state

    def _check_inf_per_device(self, optimizer):
        """Looks for infinite gradients without changing them."""
        self._check_scale("_check_inf_per_device")
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        found = self._state_of(optimizer).found_inf_per_device = _multiply(grads, 1.0)
        return found

    def _found_inf_per_device(self, optimizer):
        return self._state_of(optimizer).found_inf_per_device
