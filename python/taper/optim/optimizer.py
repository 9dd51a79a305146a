"""torch.optim.optimizer: what all optimisers share, and what users derive their own from."""

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from copy import deepcopy
from itertools import chain

import taper
from taper import _C
from taper._C import Tensor
from taper.autograd.profiler import record_function
from taper.utils.hooks import RemovableHandle

StateDict = dict
ParamsT = params_t = Iterable
_sparse_gradients = []  # holds True once a sparse gradient has been made: steps look for them from then on
_global_optimizer_pre_hooks = OrderedDict()
_global_optimizer_post_hooks = OrderedDict()
_HOOK_DICTS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


class _RequiredParameter:
    """Stands for an option without default."""

    def __repr__(self):
        return "<required parameter>"


required = _RequiredParameter()


def _get_capturable_supported_devices(supports_xla=True):
    """Devices on which a step can be recorded in a graph."""
    return ["cuda", "xpu"]


def _default_to_fused_or_foreach(params, differentiable, use_fused=False):
    """(fused, foreach) where the user chose neither: steps of whole lists where all parameters are on an
    accelerator."""
    on_accelerators = all(p is None or p.device.type in ("cuda", "xpu") for p in params)
    return False, not differentiable and bool(params) and on_accelerators


def _add_hook(hooks, hook, prepend=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook):
    """Calls hook(optimizer, args, kwargs) before every step of every optimiser."""
    return _add_hook(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    """Calls hook(optimizer, args, kwargs) after every step of every optimiser."""
    return _add_hook(_global_optimizer_post_hooks, hook)


def _use_grad_for_differentiable(func):
    """A step that records itself on the tape only where the optimiser was told to be differentiable."""

    @functools.wraps(func)
    def step(*args, **kwargs):
        with taper.set_grad_enabled(taper.is_grad_enabled() and args[0].defaults.get("differentiable", False)):
            return func(*args, **kwargs)

    return step


def _get_value(x):
    return x.item() if isinstance(x, Tensor) else x


def _to_scalar(x):
    return x.squeeze() if isinstance(x, Tensor) and x.dim() else x


def _get_scalar_dtype(is_fused=None):
    return taper.float32 if is_fused or taper.get_default_dtype() != taper.float64 else taper.float64


def _cast(value, param, key=None):
    """Loaded state for a parameter: where the parameter is and, `step` aside, of its dtype."""
    if isinstance(value, Tensor):
        if key == "step":
            return value
        if hasattr(param, "_own_part"):
            value = param._own_part(value)
        return (
            value.to(dtype=param.dtype, device=param.device)
            if param.is_floating_point()
            else value.to(device=param.device)
        )
    if isinstance(value, dict):
        return {name: _cast(item, param, key=name) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_cast(item, param) for item in value)
    return value


class Optimizer:
    """Parameters in groups with their options, and state for each: the base of every optimiser.

    Derive from it with super().__init__(params, defaults) and a step() of your own."""

    OptimizerPreHook = OptimizerPostHook = object

    def __init__(self, params, defaults):
        self.defaults = defaults
        self._make_hooks()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + params.type()
            )
        if isinstance(params, (set, frozenset)):
            warnings.warn(
                "optimizer parameters need to be organized in ordered collections, because a set's order differs "
                "from run to run. Please use a list instead.",
                FutureWarning,
                stacklevel=4,
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hooks(self):
        """What is not saved: the hooks, and the step that calls them."""
        for name in _HOOK_DICTS:
            self.__dict__.setdefault(name, OrderedDict())
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"
        self._patch_step_function()

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        vars(self).update(state)
        self._make_hooks()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self):
        lines = [type(self).__name__ + " ("]
        for i, group in enumerate(self.param_groups):
            lines += [] if i == 0 else [""]
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines) + "\n)"

    # ---- Steps ----
    def step(self, closure=None):
        """Updates the parameters once; closure computes the loss again and returns it."""
        raise NotImplementedError

    @staticmethod
    def profile_hook_step(func):
        """func, a step, with the hooks called around it, as one range of profiles."""

        @functools.wraps(func)
        def step(*args, **kwargs):
            self = args[0]
            with record_function(f"Optimizer.step#{type(self).__name__}.step"):
                if _global_optimizer_pre_hooks or self._optimizer_step_pre_hooks:
                    args, kwargs = self._call_pre_hooks(func, args, kwargs)
                out = func(*args, **kwargs)
                self._optimizer_step_code()
                if _global_optimizer_post_hooks or self._optimizer_step_post_hooks:
                    for hook in chain(self._optimizer_step_post_hooks.values(), _global_optimizer_post_hooks.values()):
                        hook(self, args, kwargs)
                return out

        return step

    def _call_pre_hooks(self, func, args, kwargs):
        for hook in chain(_global_optimizer_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
            result = hook(self, args, kwargs)
            if result is None:
                continue
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(f"{func} must return None or a tuple of (new_args, new_kwargs), but got {result}.")
            args, kwargs = result
        return args, kwargs

    def _patch_step_function(self):
        step = type(self).step
        if not getattr(step, "hooked", None):
            type(self).step = self.profile_hook_step(step)
            type(self).step.hooked = True

    def _optimizer_step_code(self):
        """Called after each step; profilers look for it."""

    def register_step_pre_hook(self, hook):
        """Calls hook(optimizer, args, kwargs) before each step; it may return new (args, kwargs)."""
        return _add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """Calls hook(optimizer, args, kwargs) after each step."""
        return _add_hook(self._optimizer_step_post_hooks, hook)

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
        from taper.utils._foreach_utils import _group_tensors_by_device_and_dtype

        return _group_tensors_by_device_and_dtype(tensorlistlist, with_indices)

    def zero_grad(self, set_to_none=True):
        """Forgets all gradients, or sets them to zero."""
        with record_function(self._zero_grad_profile_name):
            self._forget_gradients(set_to_none)

    def _forget_gradients(self, set_to_none):
        if set_to_none:
            _C._forget_grads(self.param_groups)
            return
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.grad
                if grad is not None:
                    if grad.requires_grad:
                        grad.requires_grad_(False) if grad.grad_fn is None else grad.detach_()
                    grad.zero_()

    # ---- Groups ----
    def add_param_group(self, param_group):
        """Adds a group: a dict with `params` and whatever options differ from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                "sets will change between runs. Please use a list instead."
            )
        param_group["params"] = params = [params] if isinstance(params, Tensor) else list(params)
        self._take_names(param_group, params)
        params, inner = param_group["params"], self.defaults.get("differentiable")
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError("optimizer can only optimize Tensors, but one of the params is " + taper.typename(p))
            if not (inner or p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        whole = {**self.defaults, **param_group}
        lacking = [name for name, value in whole.items() if value is required]
        if lacking:
            raise ValueError(f"parameter group didn't specify a value of required optimization parameter {lacking[0]}")
        param_group.update(whole)
        if len(params) > len(set(params)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error",
                stacklevel=3,
            )
        known = {p for group in self.param_groups for p in group["params"]}
        if not known.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def _take_names(self, group, params):
        """(name, parameter) pairs, as module.named_parameters() gives them, become `params` and `param_names`."""
        named = [isinstance(p, tuple) for p in params]
        if any(named):
            if not all(named):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            group["params"] = [p[1] for p in params]
            group["param_names"] = [p[0] for p in params]
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with' if 'param_names' in group else 'without'} names to the optimizer"
            )

    # ---- State ----
    def register_state_dict_pre_hook(self, hook, prepend=False):
        """Calls hook(optimizer) before state_dict()."""
        return _add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """Calls hook(optimizer, state_dict) after state_dict(); what it returns takes the dict's place."""
        return _add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """Calls hook(optimizer, state_dict) before load_state_dict(); what it returns is loaded instead."""
        return _add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """Calls hook(optimizer) after load_state_dict()."""
        return _add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def state_dict(self):
        """Groups and state, with numbers in place of the parameters."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        number, groups = {}, []
        for group in self.param_groups:
            for p in group["params"]:
                number.setdefault(id(p), len(number))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [number[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {
            number[id(key)] if isinstance(key, Tensor) else key: key._state_of_whole(value)
            if hasattr(key, "_state_of_whole")
            else value
            for key, value in self.state.items()
        }  # of a DTensor: what it keeps is a DTensor as well
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, result)
            result = result if replaced is None else replaced
        return result

    @staticmethod
    def _process_value_according_to_param_policy(param, value, param_id, param_groups, key=None):
        return _cast(value, param, key)

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() of the same optimiser over like parameters gave; tensors are shared where
        nothing has to be converted."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        groups, saved_groups = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(group["params"]) != len(saved["params"]) for group, saved in zip(groups, saved_groups)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        param_of = dict(
            zip(
                chain.from_iterable(saved["params"] for saved in saved_groups),
                chain.from_iterable(group["params"] for group in groups),
            )
        )
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in param_of:
                param = param_of[key]
                state[param] = (
                    {
                        name: self._process_value_according_to_param_policy(
                            param, item, key, state_dict["param_groups"], name
                        )
                        for name, item in value.items()
                    }
                    if isinstance(value, dict)
                    else _cast(value, param)
                )
            else:
                state[key] = value
        for group, saved in zip(groups, saved_groups):
            saved["params"] = group["params"]
            if "param_names" in group and "param_names" not in saved:
                saved["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)
