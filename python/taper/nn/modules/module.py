"""torch.nn.Module. Attributes and plain calls are in C (python/ext/nn.c); here is what is asked of a module less often:
hooks, state, walks."""

import weakref
from collections import OrderedDict

from taper import _C, __future__ as future
from taper._C import Tensor
from taper._toplevel import typename
from taper.autograd.grad_mode import no_grad as _no_grad
from taper.nn.parameter import Buffer, Parameter, is_lazy
from taper.utils.hooks import BackwardHook, RemovableHandle, hook_node

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"
_global_forward_pre_hooks, _global_forward_hooks = OrderedDict(), OrderedDict()
_global_forward_hooks_with_kwargs, _global_forward_hooks_always_called = OrderedDict(), OrderedDict()
_global_backward_pre_hooks, _global_backward_hooks = OrderedDict(), OrderedDict()
_global_is_full_backward_hook = None  # True or False once there was a hook of that kind
_global_parameter_registration_hooks, _global_buffer_registration_hooks, _global_module_registration_hooks = (
    OrderedDict(),
    OrderedDict(),
    OrderedDict(),
)
_C._set_parameter_types(Parameter, Buffer, _global_module_registration_hooks, _global_buffer_registration_hooks)


class _GlobalHandle(RemovableHandle):
    """Takes a hook of all modules away again; the C side counts them."""

    def remove(self):
        hooks = self.hooks_dict_ref()
        if hooks is not None and self.id in hooks:
            _C._count_global_hooks(-1)
        super().remove()


def _register_global(hooks, hook, *options):
    handle = _GlobalHandle(hooks, extra_dict=list(options))
    hooks[handle.id] = hook
    _C._count_global_hooks(1)
    return handle


def register_module_forward_pre_hook(hook):
    """A hook before the forward of every module."""
    return _register_global(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """A hook after the forward of every module; with always_call also when forward fails."""
    handle = _register_global(
        _global_forward_hooks, hook, _global_forward_hooks_with_kwargs, _global_forward_hooks_always_called
    )
    if with_kwargs:
        _global_forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        _global_forward_hooks_always_called[handle.id] = True
    return handle


def register_module_full_backward_pre_hook(hook):
    """A hook before the backward of every module."""
    return _register_global(_global_backward_pre_hooks, hook)


def _global_backward(hook, full):
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is not None and _global_is_full_backward_hook is not full:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )
    _global_is_full_backward_hook = full
    return _register_global(_global_backward_hooks, hook)


def register_module_full_backward_hook(hook):
    """A hook after the backward of every module."""
    return _global_backward(hook, True)


def register_module_backward_hook(hook):
    """The old form: a hook on the node that made the output of every module."""
    return _global_backward(hook, False)


def _register(hooks, hook, prepend=False, marks=()):
    """Keeps a hook, first or last; marks: (dict, whether the hook's number goes into it), which go with it when it is
    removed."""
    handle = RemovableHandle(hooks, extra_dict=[kept for kept, _ in marks])
    hooks[handle.id] = hook
    for kept, wanted in marks:
        if wanted:
            kept[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, False)
    return handle


def register_module_parameter_registration_hook(hook):
    return _register(_global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook):
    return _register(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    return _register(_global_module_registration_hooks, hook)


def _registered(hooks, module, name, value):
    """What the hooks of a registration make of the value."""
    for hook in hooks.values():
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value


class _WrappedHook:
    """A hook that is called with the module first, which it holds on to weakly; it can be pickled with the module."""

    def __init__(self, hook, module=None):
        from functools import update_wrapper

        self.hook, self.with_module = hook, module is not None
        self.module = None if module is None else weakref.ref(module)
        update_wrapper(self, hook)

    def __call__(self, *args, **kwargs):
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self):
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state):
        self.__init__(state["hook"], state.get("module"))


def _on_conversion():
    """Are the tensors behind parameters exchanged when a module is converted, and are the parameters replaced?"""
    return future.get_swap_module_params_on_conversion(), future.get_overwrite_module_params_on_conversion()


def _alike(first, second):
    """Can the one take over the other's memory? A tensor without memory of its own cannot."""
    return first is second or first.is_meta == second.is_meta


def _is_wrapper(tensor):
    """Is it of a class that says which tensors it consists of? Then there is no memory to take over."""
    kind = type(tensor)
    return (
        kind is not Tensor
        and kind is not Parameter
        and hasattr(kind, "__tensor_flatten__")
        and hasattr(kind, "__tensor_unflatten__")
    )


def _swap(first, second, what):
    from taper.utils import swap_tensors

    try:
        swap_tensors(first, second)
    except Exception as error:
        raise RuntimeError(what) from error


class _IncompatibleKeys(tuple):
    """What load_state_dict missed and what it did not expect."""

    __slots__ = ()
    missing_keys = property(lambda self: self[0])
    unexpected_keys = property(lambda self: self[1])

    def __new__(cls, missing, unexpected):
        return tuple.__new__(cls, (missing, unexpected))

    def __repr__(self):
        if not self[0] and not self[1]:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self[0]}, unexpected_keys={self[1]})"

    __str__ = __repr__


def _addindent(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first] + [" " * spaces + line for line in rest])


def _forward_unimplemented(self, *input):
    """What a call computes; every subclass defines it."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


class _CallSignature:
    """inspect.signature(module): calls are in C and pass everything on. The class itself has that of its __init__."""

    def __get__(self, module, owner=None):
        if module is None:
            raise AttributeError("__signature__")
        from inspect import Parameter as Argument, Signature

        return Signature([Argument("args", Argument.VAR_POSITIONAL), Argument("kwargs", Argument.VAR_KEYWORD)])


class Module(_C.ModuleBase):
    """The base of all layers and networks: parameters, buffers and child modules under names."""

    dump_patches = False
    _version = 1
    training: bool
    call_super_init = False
    __signature__ = _CallSignature()

    def __init__(self, *args, **kwargs):
        if not self.call_super_init and (args or kwargs):
            given = next(iter(kwargs)) if kwargs else None
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument '{given}'"
                if given
                else f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _backward_pre_hooks=OrderedDict(),
            _backward_hooks=OrderedDict(),
            _is_full_backward_hook=None,
            _forward_hooks=OrderedDict(),
            _forward_hooks_with_kwargs=OrderedDict(),
            _forward_hooks_always_called=OrderedDict(),
            _forward_pre_hooks=OrderedDict(),
            _forward_pre_hooks_with_kwargs=OrderedDict(),
            _state_dict_hooks=OrderedDict(),
            _state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_post_hooks=OrderedDict(),
            _modules={},
        )
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward = _forward_unimplemented

    # ---- Registering ----
    def _check_name(self, name, kind):
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a tensor that belongs to the state but is no parameter."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name(name, "buffer")
        if hasattr(self, name) and name not in self._buffers:
            raise KeyError(f"attribute '{name}' already exists")
        if tensor is not None and not (isinstance(tensor, Tensor) or hasattr(tensor, "__torch_function__")):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        tensor = _registered(_global_buffer_registration_hooks, self, name, tensor)
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def register_parameter(self, name, param):
        """Adds a parameter, or keeps its name with None."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name(name, "parameter")
        if hasattr(self, name) and name not in self._parameters:
            raise KeyError(f"attribute '{name}' already exists")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                f"To express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = (
            None if param is None else _registered(_global_parameter_registration_hooks, self, name, param)
        )

    def add_module(self, name, module):
        """Adds a child under a name."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        self._check_name(name, "module")
        module = _registered(_global_module_registration_hooks, self, name, module)
        self._modules[name] = module

    register_module = add_module

    def _assign_buffer(self, name, buffer):
        """`module.name = Buffer(...)`: through register_buffer, which a subclass may have written without
        `persistent`."""
        if type(self).register_buffer is not Module.register_buffer:
            from inspect import signature

            if "persistent" not in signature(self.register_buffer).parameters:
                if not buffer.persistent:
                    raise RuntimeError(
                        "Registering a non-persistent buffer on a Module subclass that implements register_buffer() "
                        "without the persistent argument is not allowed."
                    )
                return self.register_buffer(name, buffer)
        return self.register_buffer(name, buffer, buffer.persistent)

    # ---- By dotted path ----
    def get_submodule(self, target):
        """The descendant at a path like 'layer1.0.conv'."""
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target, module, strict=False):
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        setattr(parent, name, module)

    def _get_at(self, target, kind, which):
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if name not in module.__dict__[which] or (module.__dict__[which][name] is None and which == "_parameters"):
            raise AttributeError(f"`{name}` is not {kind}")
        return module.__dict__[which][name]

    def get_parameter(self, target):
        """The parameter at a path like 'layer1.0.conv.weight'."""
        return self._get_at(target, "an nn.Parameter", "_parameters")

    def get_buffer(self, target):
        """The buffer at a path."""
        return self._get_at(target, "a buffer", "_buffers")

    def get_extra_state(self):
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Please "
            "report this bug to Taper's maintainers."
        )

    def set_extra_state(self, state):
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. Please "
            "report this bug to Taper's maintainers."
        )

    # ---- Walking ----
    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """This module and all below it, with their paths."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, prefix + ("." if prefix else "") + name, remove_duplicate)

    def modules(self):
        for _, module in self.named_modules():
            yield module

    def named_children(self):
        memo = set()
        for name, module in self._modules.items():
            if module is not None and module not in memo:
                memo.add(module)
                yield name, module

    def children(self):
        for _, module in self.named_children():
            yield module

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        memo = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or value in memo:
                    continue
                if remove_duplicate:
                    memo.add(value)
                yield path + ("." if path else "") + name, value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        yield from self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        yield from self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def apply(self, fn):
        """Calls fn on every module, children first."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- Moving and converting ----
    def _apply(self, fn, recurse=True):
        """Replaces parameters, gradients and buffers by fn of them; parameters stay the same objects."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        swap, overwrite = _on_conversion()
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            with _no_grad():
                changed = fn(parameter)
            gradient = parameter.grad
            if swap or _is_wrapper(changed):
                self._swap_in(name, parameter, changed, gradient)
            elif overwrite or not _alike(parameter, changed):
                self._parameters[name] = Parameter(changed, parameter.requires_grad)
            elif changed is not parameter:
                parameter.data = changed
            if gradient is None:
                continue
            with _no_grad():
                moved = fn(gradient)
            if self._parameters[name] is not parameter:
                self._parameters[name].grad = moved.requires_grad_(gradient.requires_grad)
            elif swap or _is_wrapper(moved):
                if moved is not gradient:
                    _swap(
                        gradient,
                        moved.requires_grad_(gradient.requires_grad),
                        f"_apply(): Couldn't swap {self._get_name()}.{name}.grad",
                    )
                parameter.grad = gradient
            elif moved is not gradient:
                gradient.data = moved
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _swap_in(self, name, parameter, changed, gradient):
        """The tensor behind a parameter becomes the changed one. Its gradient, which would not fit, waits outside."""
        if gradient is not None:
            parameter.grad = None
        try:
            _swap(
                parameter,
                Parameter(changed, parameter.requires_grad),
                f"_apply(): Couldn't swap {self._get_name()}.{name}",
            )
        except RuntimeError:
            parameter.grad = gradient
            raise

    def to(self, *args, **kwargs):
        """Moves and converts parameters and buffers, in place; only floating and complex ones change dtype."""
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def convert(t):
            if device is not None and t.is_meta and device.type != "meta":
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
                    "torch.nn.Module.to() when moving module from meta to a different device."
                )
            wanted = dtype if t.is_floating_point() or t.is_complex() else None
            if memory_format is not None and t.dim() in (4, 5):
                return t.to(device=device, dtype=wanted, memory_format=memory_format)
            return t.to(device=device, dtype=wanted)

        return self._apply(convert)

    def _to_floating(self, dtype):
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self):
        return self._to_floating(_C.float32)

    def double(self):
        return self._to_floating(_C.float64)

    def half(self):
        return self._to_floating(_C.float16)

    def bfloat16(self):
        return self._to_floating(_C.bfloat16)

    def type(self, dst_type):
        return self._apply(lambda t: t.type(dst_type))

    def cpu(self):
        return self._apply(lambda t: t.cpu())

    def cuda(self, device=None):
        return self._apply(lambda t: t.cuda(device))

    def xpu(self, device=None):
        return self._apply(lambda t: t.xpu(device))

    def ipu(self, device=None):
        return self._apply(lambda t: t.ipu(device))

    def mtia(self, device=None):
        return self._apply(lambda t: t.mtia(device))

    def to_empty(self, *, device, recurse=True):
        return self._apply(lambda t: _C._functions["empty_like"](t, device=device), recurse)

    def share_memory(self):
        return self._apply(lambda t: t.share_memory_())

    # ---- Modes ----
    def train(self, mode=True):
        """Sets training mode here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Forgets the parameters' gradients, or sets them to zero."""
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            elif parameter.grad.grad_fn is not None:
                parameter.grad.detach_().zero_()
            else:
                parameter.grad.requires_grad_(False).zero_()

    # ---- Hooks ----
    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) before forward; what it returns replaces the arguments."""
        return _register(self._forward_pre_hooks, hook, prepend, [(self._forward_pre_hooks_with_kwargs, with_kwargs)])

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """hook(module, args, output) after forward; what it returns replaces the output."""
        return _register(
            self._forward_hooks,
            hook,
            prepend,
            [(self._forward_hooks_with_kwargs, with_kwargs), (self._forward_hooks_always_called, always_call)],
        )

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) once the gradients of the inputs are there; what it returns replaces
        grad_input."""
        return self._register_backward(hook, True, prepend)

    def register_backward_hook(self, hook):
        """The old form: a hook on the node that made the output, which sees that node's gradients alone."""
        return self._register_backward(hook, False)

    def _register_backward(self, hook, full, prepend=False):
        if self._is_full_backward_hook is not None and self._is_full_backward_hook is not full:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        self._is_full_backward_hook = full
        return _register(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) before the module's backward; what it returns replaces grad_output."""
        return _register(self._backward_pre_hooks, hook, prepend)

    def _pre_hooked(self, args, kwargs):
        for key, hook in [*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()]:
            if key in self._forward_pre_hooks_with_kwargs:
                result = hook(self, args, kwargs)
                if result is not None:
                    if not isinstance(result, tuple) or len(result) != 2:
                        raise RuntimeError(
                            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {result}."
                        )
                    args, kwargs = result
            else:
                result = hook(self, args)
                if result is not None:
                    args = result if isinstance(result, tuple) else (result,)
        return args, kwargs

    def _get_backward_hooks(self):
        """The full backward hooks that hold for this module, and those of the old form."""
        kinds = {True: [], False: [], None: []}
        kinds[_global_is_full_backward_hook] += _global_backward_hooks.values()
        kinds[self._is_full_backward_hook] += self._backward_hooks.values()
        return kinds[True], kinds[False]

    def _get_backward_pre_hooks(self):
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _after_forward(self, key, hook, args, kwargs, result):
        if key in self._forward_hooks_with_kwargs or key in _global_forward_hooks_with_kwargs:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)

    def _call_impl(self, *args, **kwargs):
        """A call with hooks around it."""
        called = set()
        try:
            args, kwargs = self._pre_hooked(args, kwargs)
            full, old = self._get_backward_hooks()
            backward = BackwardHook.of(self, full, self._get_backward_pre_hooks())
            if backward:
                args = backward.inputs(args)
            result = self.forward(*args, **kwargs)
            for key, hook in [*_global_forward_hooks.items(), *self._forward_hooks.items()]:
                called.add(key)
                changed = self._after_forward(key, hook, args, kwargs, result)
                result = result if changed is None else changed
            if backward:
                result = backward.outputs(result)
            if old:
                hook_node(self, old, args, result)
            return result
        except Exception:
            self._call_always_hooks(called, args, kwargs)
            raise

    _wrapped_call_impl = _call_impl

    def _call_always_hooks(self, called, args, kwargs):
        """Forward failed: the hooks that asked to be called anyway."""
        for key, hook in [*_global_forward_hooks.items(), *self._forward_hooks.items()]:
            if key in called or (
                key not in _global_forward_hooks_always_called and key not in self._forward_hooks_always_called
            ):
                continue
            try:
                self._after_forward(key, hook, args, kwargs, None)
            except Exception as second:
                from warnings import warn

                which = "global module" if key in _global_forward_hooks else "module"
                warn(
                    f"{which} forward hook with ``always_call=True`` raised an exception that was silenced as another "
                    f"error was raised in forward: {second}"
                )

    def compile(self, *args, **kwargs):
        """PyTorch compiles the call; here it stays as it is."""

    # ---- State ----
    def register_state_dict_pre_hook(self, hook):
        return _register(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        hook._from_public_api = True
        return _register(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return _register(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook):
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return _register(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook):
        return _register(self._load_state_dict_post_hooks, hook)

    def _has_extra_state(self):
        return type(self).get_extra_state is not Module.get_extra_state

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if self._has_extra_state():
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """Parameters and persistent buffers by path, sharing their memory."""
        if args:
            from warnings import warn

            warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            destination, prefix, keep_vars = (list(args) + [destination, prefix, keep_vars][len(args) :])[:3]
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local = dict(version=self._version)
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            changed = hook(self, destination, prefix, local)
            if getattr(hook, "_from_public_api", False):
                if changed is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif changed is not None:
                destination = changed
        return destination

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        buffers = {name: b for name, b in self._buffers.items() if name not in self._non_persistent_buffers_set}
        assign, swap = local_metadata.get("assign_to_params_buffers", False), _on_conversion()[0]
        for name, own in [*self._parameters.items(), *buffers.items()]:
            if own is None:
                continue
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            given = state_dict[key]
            if not isinstance(given, Tensor):
                error_msgs.append(
                    f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                    f"object from checkpoint but received {type(given)}"
                )
                continue
            if is_lazy(own) and not is_lazy(given):
                own.materialize(given.shape)
            lazy = is_lazy(own)
            if is_lazy(given) and not lazy:
                given.shape  # raises, and says what to do
            if own.is_meta and not given.is_meta and not assign:
                from warnings import warn

                warn(
                    f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the "
                    "current model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the "
                    "state dictionary to their corresponding key in the module instead of copying them in place?)",
                    stacklevel=2,
                )
            if not lazy and own.dim() == 0 and given.dim() == 1 and given.shape[0] == 1:
                given = given[0]
            if not lazy and given.shape != own.shape:
                error_msgs.append(
                    f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the shape in "
                    f"current model is {own.shape}."
                )
                continue
            try:
                with _no_grad():
                    self._load_one(name, own, given, assign, swap)
            except Exception as error:
                error_msgs.append(
                    f'While copying the parameter named "{key}", whose dimensions in the model are '
                    f"{own.size()} and whose dimensions in the "
                    f"checkpoint are {given.size()}, an exception occurred : {error.args}."
                )
        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not Module.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    name = key[len(prefix) :].split(".", 1)
                    if (len(name) > 1 and name[0] not in self._modules) or (
                        len(name) == 1 and name[0] not in self._parameters and name[0] not in buffers
                    ):
                        unexpected_keys.append(key)

    def _load_one(self, name, own, given, assign, swap):
        """One parameter or buffer from a state: exchanged, taken over or copied."""
        if swap:
            loaded = own.module_load(given, assign=assign)
            if loaded is given or loaded is own:
                raise RuntimeError(
                    "module_load returned one of self or other, please .detach() the result if returning one of the "
                    "inputs in module_load"
                )
            if isinstance(own, Parameter):
                loaded = loaded if isinstance(loaded, Parameter) else Parameter(loaded, own.requires_grad)
                loaded.requires_grad_(own.requires_grad)
            from taper.utils import swap_tensors

            swap_tensors(own, loaded)
        elif assign:
            if isinstance(own, Parameter):
                given = given if isinstance(given, Parameter) else Parameter(given, own.requires_grad)
                given.requires_grad_(own.requires_grad)
            setattr(self, name, given)
        else:
            own.copy_(given)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies a state into parameters and buffers, or makes it theirs (assign)."""
        if not hasattr(state_dict, "items"):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing, unexpected, errors = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        state = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata

        def load(module, state, prefix=""):
            local = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
            if assign:
                local["assign_to_params_buffers"] = True
            module._load_from_state_dict(state, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    below = prefix + name + "."
                    load(child, {k: v for k, v in state.items() if k.startswith(below)}, below)
            incompatible = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, incompatible) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                        "values, if incompatible_keys need to be modified, it should be done inplace."
                    )

        load(self, state)
        del load  # which holds itself, and what it was given
        if strict:
            if unexpected:
                errors.insert(0, "Unexpected key(s) in state_dict: " + ", ".join(f'"{k}"' for k in unexpected) + ". ")
            if missing:
                errors.insert(0, "Missing key(s) in state_dict: " + ", ".join(f'"{k}"' for k in missing) + ". ")
        if errors:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors))
        return _IncompatibleKeys(missing, unexpected)

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name, kind in (
            ("_forward_pre_hooks", OrderedDict),
            ("_forward_pre_hooks_with_kwargs", OrderedDict),
            ("_forward_hooks", OrderedDict),
            ("_forward_hooks_with_kwargs", OrderedDict),
            ("_forward_hooks_always_called", OrderedDict),
            ("_backward_hooks", OrderedDict),
            ("_backward_pre_hooks", OrderedDict),
            ("_state_dict_hooks", OrderedDict),
            ("_state_dict_pre_hooks", OrderedDict),
            ("_load_state_dict_pre_hooks", OrderedDict),
            ("_load_state_dict_post_hooks", OrderedDict),
            ("_non_persistent_buffers_set", set),
        ):
            self.__dict__.setdefault(name, kind())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    def _replicate_for_data_parallel(self):
        """A copy for a replica: its parameters are to be set, and it holds on to this module's otherwise."""
        replica = self.__new__(type(self))
        replica.__dict__ = {
            **self.__dict__,
            "_parameters": {},
            "_buffers": dict(self._buffers),
            "_modules": dict(self._modules),
            "_is_replica": True,
        }
        return replica

    # ---- Printing ----
    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What stands in the parentheses; layers say their sizes here."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()]
        if lines and not children and len(lines) == 1:
            return f"{self._get_name()}({lines[0]})"
        if not lines and not children:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"

    def __dir__(self):
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._buffers, *self._modules]
        return sorted(name for name in set(names) if not name[0].isdigit())


def _parse_to(*args, device=None, dtype=None, non_blocking=False, copy=False, memory_format=None, **other):
    """to(device), to(dtype), to(device, dtype), to(tensor): which of them a call means."""
    fits = not other and (dtype is None or isinstance(dtype, _C.dtype))
    for at, arg in enumerate(args):
        if isinstance(arg, _C.dtype):
            dtype = arg
        elif isinstance(arg, bool) and at:
            non_blocking = arg
        elif isinstance(arg, Tensor) and not at:
            device, dtype = arg.device, arg.dtype
        elif arg is not None:
            fits, device = fits and not at and isinstance(arg, (str, int, _C.device)), arg
    if not fits:
        given = [type(arg).__name__ for arg in args] + [
            f"{name}={type(arg).__name__}" for name, arg in {**other, "dtype": dtype}.items() if arg is not None
        ]
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({', '.join(given)}), but expected a device, a "
            "dtype, a device and a dtype, or a Tensor, then non_blocking and copy, and memory_format by keyword"
        )
    return device if device is None else _C.device(device), dtype, non_blocking, memory_format
