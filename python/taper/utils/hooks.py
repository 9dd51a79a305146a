"""torch.utils.hooks: handles that take hooks away again, and the hooks around a module's backward."""
import itertools
import weakref

from taper._C import Tensor

_ids = itertools.count()


class RemovableHandle:
    """Removes a hook from the dict it stands in; also a context manager."""
    next_id = 0

    def __init__(self, hooks_dict, *, extra_dict=None):
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = next(_ids)
        extras = [] if extra_dict is None else extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self.extra_dict_ref = tuple(weakref.ref(extra) for extra in extras)

    def remove(self):
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


def _replace_tensors(value, found, replaced):
    """The nested tuples and lists again, with each tensor in `found` exchanged for its counterpart."""
    if isinstance(value, Tensor):
        return replaced[next(i for i, t in enumerate(found) if t is value)] if any(t is value for t in found) else value
    if isinstance(value, dict):
        return {key: _replace_tensors(item, found, replaced) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [_replace_tensors(item, found, replaced) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


class BackwardHook:
    """Hooks around one call's backward. The inputs and the outputs pass through a function that changes nothing; its nodes are where
    gradients come in and go out of the module."""

    def __init__(self, module, hooks, pre_hooks):
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs, self.count, self.places = None, 0, []

    @staticmethod
    def of(module, hooks, pre_hooks):
        return BackwardHook(module, hooks, pre_hooks) if hooks or pre_hooks else None

    @staticmethod
    def _pass(tensors):
        from taper.autograd.function import Function

        class BackwardHookFunction(Function):
            @staticmethod
            def forward(ctx, *args):
                ctx.mark_non_differentiable(*[arg for arg in args if not arg.requires_grad])
                return args if len(args) > 1 else args[0]

            @staticmethod
            def backward(ctx, *grads):
                return grads if len(grads) > 1 else grads[0]
        passed = BackwardHookFunction.apply(*tensors)
        return passed if isinstance(passed, tuple) else (passed,)

    def _full(self, grads):
        """The gradients in the places of all arguments, None for those that are no tensors."""
        full = [None] * self.count
        for place, grad in zip(self.places, grads):
            full[place] = grad
        return tuple(full)

    def inputs(self, args):
        found = [(i, arg) for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        self.count, self.places = len(args), [i for i, _ in found]
        if not any(t.requires_grad for _, t in found):
            self.input_node = None
            return args
        passed = self._pass([t for _, t in found])
        args = list(args)
        for (i, _), t in zip(found, passed):
            args[i] = t
        self.input_node = next(t.grad_fn for t in passed if t.grad_fn is not None)
        self.input_node.register_hook(self._after)
        return tuple(args)

    def _after(self, grad_inputs, _):
        if self.grad_outputs is None:
            raise RuntimeError("Module backward hook for grad_input is called before the grad_output one. This happens because the gradient in your nn.Module flows to "
                               "the Module's input without passing through the Module's output. Make sure that the output depends on the input and that the loss is "
                               "computed based on the output.")
        return self._run(grad_inputs)

    def _run(self, grad_inputs):
        grads, changed = self._full(grad_inputs), False
        for hook in self.hooks:
            result = hook(self.module, grads, self.grad_outputs)
            if result is None:
                continue
            result = result if isinstance(result, tuple) else (result,)
            if len(result) != len(grads):
                raise RuntimeError(f"Backward hook returned an invalid number of grad_input, got {len(result)}, but expected {len(grads)}")
            grads, changed = result, True
        self.grad_outputs = None
        return tuple(grads[i] for i in self.places) if changed else None

    def outputs(self, result):
        tensors = [result] if isinstance(result, Tensor) else [t for t in _tensors(result)]
        if not any(t.requires_grad for t in tensors):
            return result
        passed = self._pass(tensors)
        node = next(t.grad_fn for t in passed if t.grad_fn is not None)

        def before(grad_outputs):
            changed = None
            for hook in self.pre_hooks:
                value = hook(self.module, grad_outputs)
                if value is not None:
                    changed = grad_outputs = value if isinstance(value, tuple) else (value,)
            self.grad_outputs = grad_outputs
            if self.input_node is None:
                self._run_without_inputs()
            return changed
        node.register_prehook(before)
        return _replace_tensors(result, tensors, passed)

    def _run_without_inputs(self):
        for hook in self.hooks:
            if hook(self.module, self._full(()), self.grad_outputs) is not None:
                raise RuntimeError("Backward hook for Modules where no input requires gradient should always return None or None for all gradients.")
        self.grad_outputs = None


def _tensors(value):
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
