"""torch.autograd.graph: nodes of the tape, hooks on them and on what they save."""

from collections import namedtuple
from threading import Lock

from taper import _C
from taper._C import Tensor
from taper.autograd.grad_mode import no_grad

__all__ = [
    "saved_tensors_hooks",
    "save_on_cpu",
    "disable_saved_tensors_hooks",
    "register_multi_grad_hook",
    "allow_mutation_on_saved_tensors",
    "Node",
    "GradientEdge",
    "get_gradient_edge",
    "increment_version",
    "queue_callback",
]

GradientEdge = namedtuple("GradientEdge", ["node", "output_nr", "ownership_token"], defaults=[None])


class _NodeMeta(type):
    def __instancecheck__(cls, other):
        return isinstance(other, (_C._Node, _C._FunctionBase))

    def __subclasscheck__(cls, other):
        return issubclass(other, (_C._Node, _C._FunctionBase))


class Node(metaclass=_NodeMeta):
    """What y.grad_fn is: name(), next_functions, metadata, register_hook(), register_prehook()."""


def get_gradient_edge(tensor):
    """Where the tensor's gradient enters the tape."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(
        tensor.grad_fn if tensor.grad_fn is not None else _C._grad_accumulator(tensor), tensor.output_nr
    )


def increment_version(tensor):
    """Counts a write that the tape did not see."""
    with no_grad():
        for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
            if t.is_inference():  # has no version
                continue
            alias = t.detach()
            alias.copy_(alias)


def queue_callback(callback):
    """Calls it when the backward that runs now is done; an error outside of one."""
    _C._queue_callback(callback)


class saved_tensors_hooks:
    """Inside, what calls save for backward goes through pack_hook, and comes back through unpack_hook."""

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self):
        _C._push_saved_hooks(self.pack_hook, self.unpack_hook)
        return self

    def __exit__(self, *error):
        _C._pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keeps what is saved for backward in the CPU's memory."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(packed[0], non_blocking=pin_memory))


class disable_saved_tensors_hooks:
    """Inside, saved_tensors_hooks is an error with this message."""

    def __init__(self, error_message):
        self.message = error_message

    def __enter__(self):
        self.before = _C._forbid_saved_hooks(self.message)

    def __exit__(self, *error):
        _C._forbid_saved_hooks(self.before)

    def __call__(self, function):
        from taper.autograd.grad_mode import context_decorator

        return context_decorator(lambda: type(self)(self.message), function)


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """Inside, tensors saved for backward may be written in place: what is saved is a copy. The backward belongs inside
    too."""

    _current = None

    def __init__(self):
        super().__init__(lambda t: t.clone(), self._give)

    def _give(self, copy):
        if allow_mutation_on_saved_tensors._current is not self:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "originally recorded."
            )
        return copy

    def __enter__(self):
        if allow_mutation_on_saved_tensors._current is not None:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        allow_mutation_on_saved_tensors._current = self
        return super().__enter__()

    def __exit__(self, *error):
        allow_mutation_on_saved_tensors._current = None
        super().__exit__(*error)


class _MultiHandle:
    def __init__(self, handles):
        self.handles = handles

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


def _at_first(fn):
    """fn, at the first of its calls in each backward."""
    lock, seen = Lock(), set()

    def note(grad):
        number = _C._backward_number()
        with lock:
            first = number not in seen
            seen.add(number)
        if first:
            fn(grad)

    return note


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """fn(grads) once all of the tensors have their gradient ("all"), or fn(grad) at the first of them ("any") in each
    backward."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = tuple(tensors)
    if mode == "any":
        note = _at_first(fn)
        return _MultiHandle([t.register_hook(note) for t in tensors if t.requires_grad])
    lock, waiting = (
        Lock(),
        {},
    )  # backward's number -> [gradients, how many are still to come]: several threads may run one each

    def note(i, grad):
        number = _C._backward_number()
        with lock:
            if number not in waiting:
                waiting[number] = [[None] * len(tensors), sum(map(_C._backward_reaches, tensors))]
            grads, left = waiting[number]
            grads[i] = grad
            waiting[number][1] = left - 1
            if left == 1:
                del waiting[number]
        if left == 1:
            fn(grads)

    return _MultiHandle([t.register_hook(lambda grad, i=i: note(i, grad)) for i, t in enumerate(tensors)])
