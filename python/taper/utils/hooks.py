"""torch.utils.hooks: handles that take hooks away again, and the hooks around a module's backward."""

import weakref
from collections import OrderedDict

from taper._C import Tensor


class RemovableHandle:
    """Removes a hook from the dict it stands in; also a context manager."""

    next_id = 0

    def __init__(self, hooks_dict, *, extra_dict=None):
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extras = [] if extra_dict is None else extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self.extra_dict_ref = tuple(weakref.ref(extra) for extra in extras)

    def remove(self):
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self):
        return self.hooks_dict_ref(), self.id, tuple(reference() for reference in self.extra_dict_ref)

    def __setstate__(self, state):
        dead = OrderedDict()
        self.id = state[1]
        self.hooks_dict_ref = weakref.ref(dead if state[0] is None else state[0])
        self.extra_dict_ref = tuple(
            weakref.ref(dead if hooks is None else hooks) for hooks in (state[2] if len(state) > 2 else ())
        )
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


class BackwardHook:
    """Hooks around one call's backward. The inputs and the outputs pass through a function that changes nothing; its
    nodes are where gradients come in and go out of the module."""

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

    @staticmethod
    def _spread(grads, places, count):
        """The gradients in the places of all arguments or results, None for those that are no tensors."""
        full = [None] * count
        for place, grad in zip(places, grads):
            full[place] = grad
        return tuple(full)

    def _full(self, grads):
        return self._spread(grads, self.places, self.count)

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
        if (
            self.grad_outputs is not None
        ):  # None: the gradient came to the inputs past the outputs, as in a double backward
            return self._run(grad_inputs)

    def _run(self, grad_inputs):
        grads, changed = self._full(grad_inputs), False
        for hook in self.hooks:
            result = hook(self.module, grads, self.grad_outputs)
            if result is None:
                continue
            result = result if isinstance(result, tuple) else (result,)
            if len(result) != len(grads):
                raise RuntimeError(
                    f"Backward hook returned an invalid number of grad_input, got {len(result)}, but "
                    f"expected {len(grads)}"
                )
            grads, changed = result, True
        self.grad_outputs = None
        return tuple(grads[i] for i in self.places) if changed else None

    def outputs(self, result):
        if not isinstance(result, (Tensor, tuple)):
            from warnings import warn

            warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors "
                f"but received {type(result)}",
                stacklevel=4,
            )
            return result
        items = list(result) if isinstance(result, tuple) else [result]
        places = [i for i, item in enumerate(items) if isinstance(item, Tensor)]
        if not any(items[i].requires_grad for i in places):
            return result
        passed = self._pass([items[i] for i in places])
        for i, tensor in zip(places, passed):
            items[i] = tensor

        def before(grads):
            full = self._spread(grads, places, len(items))
            changed = False
            for hook in self.pre_hooks:
                value = hook(self.module, full)
                if value is not None:
                    full, changed = value if isinstance(value, tuple) else (value,), True
                    if len(full) != len(items):
                        raise RuntimeError(
                            f"Backward pre hook returned an invalid number of grad_output, got {len(full)}, "
                            f"but expected {len(items)}"
                        )
            self.grad_outputs = full
            if self.input_node is None:
                self._run_without_inputs()
            return tuple(full[i] for i in places) if changed else None

        next(t.grad_fn for t in passed if t.grad_fn is not None).register_prehook(before)
        if not isinstance(result, tuple):
            return items[0]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)

    def _run_without_inputs(self):
        if self.hooks:
            from warnings import warn

            warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs "
                "since no inputs require gradients. See "
                "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.register_full_backward_hook "
                "for more details.",
                stacklevel=5,
            )
        for hook in self.hooks:
            result = hook(self.module, self._full(()), self.grad_outputs)
            if result is not None and not (isinstance(result, tuple) and all(grad is None for grad in result)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None "
                    "or None for all gradients."
                )
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


def _warn_of_old_hook(inputs, result, node):
    """An old hook sees one node's gradients: says so where that is not all of the module's."""
    tensors, given = list(_tensors(result)), list(_tensors(inputs))
    single = lambda value: (
        isinstance(value, Tensor) or (isinstance(value, tuple) and all(isinstance(item, Tensor) for item in value))
    )
    if not single(result):
        what, lost = "on a Module that does not return a single Tensor or a tuple of Tensors", "of the grad_output"
    elif not single(inputs):
        what, lost = (
            "on a Module that does not take as input a single Tensor or a tuple of Tensors",
            "of the grad_input",
        )
    elif len({t.grad_fn for t in tensors} - {None}) > 1:
        what, lost = "when outputs are generated by different autograd Nodes", "grad_output"
    elif {t.grad_fn for t in given} - {None} != {following[0] for following in node.next_functions}:
        what, lost = "when the forward contains multiple autograd Nodes", "grad_input"
    else:
        return
    from warnings import warn

    form = "non-full backward hooks" if lost.startswith("of") else "a non-full backward hook"
    warn(
        f"Using {form} {what} is deprecated and will be removed in future versions. This hook will be "
        f"missing some {lost}. Please use "
        "register_full_backward_hook to get the documented behavior.",
        FutureWarning,
        stacklevel=4,
    )


def hook_node(module, hooks, inputs, result):
    """The old backward hooks of a module: on the node that made its (first) output."""
    first = next(iter(_tensors(result)), None)
    node = None if first is None else first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(lambda grad_inputs, grad_outputs, hook=hook: hook(module, grad_inputs, grad_outputs))
    _warn_of_old_hook(inputs, result, node)
