"""torch.distributed.autograd: backward through remote calls.

Within a context, a tensor that travels becomes a leaf where it arrives. A worker's backward gives gradients of its own
leaves to the context and sends those of leaves that came from elsewhere back to where they came from, which goes on
there. Gradients of several paths add up, so each path may be walked on its own."""

import itertools
import threading
from contextlib import contextmanager

import taper

_contexts, _lock, _numbers = {}, threading.Lock(), itertools.count(1)
_here = threading.local()


class DistAutogradContext:
    """What one worker knows of a context."""

    def __init__(self, id):
        self.id, self.lock, self.gradients = id, threading.Lock(), {}
        self.sends, self.origins, self.leaves, self.peers = {}, {}, [], set()

    def sent(self, peer, message, tensors):
        with self.lock:
            self.peers.add(peer)
            if tensors:
                self.sends[peer, message] = tensors

    def received(self, peer, message, leaves):
        with self.lock:
            self.peers.add(peer)
            for index, leaf in leaves.items():
                self.leaves.append(leaf)  # kept, so that no other tensor gets its identity
                self.origins[id(leaf)] = peer, message, index

    def backward(self, tensors, gradients):
        """From tensors of this worker: notes gradients, and hands on those of what came from elsewhere."""
        leaves, onward = _leaves(tensors), {}
        found = taper.autograd.grad(tensors, leaves, gradients, retain_graph=True, allow_unused=True) if leaves else ()
        with self.lock:
            for leaf, gradient in zip(leaves, found):
                if gradient is None:
                    continue
                origin = self.origins.get(id(leaf))
                if origin is not None:
                    onward.setdefault(origin[:2], {})[origin[2]] = gradient
                else:
                    before = self.gradients.get(leaf)
                    self.gradients[leaf] = gradient if before is None else before + gradient
        agent = _agent()
        with _within(-1):
            calls = [
                agent.call(agent.workers[peer], _go_on, (self.id, agent.info.id, message, parts), timeout=0)
                for (peer, message), parts in onward.items()
            ]
        for call in calls:
            call.wait()


def _agent():
    from taper.distributed.rpc.api import _get_current_rpc_agent

    return _get_current_rpc_agent()


def _leaves(tensors):
    """All leaves that tensors depend on."""
    found = {id(t): t for t in tensors if t.grad_fn is None}
    todo, seen = [t.grad_fn for t in tensors if t.grad_fn is not None], set()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found[id(node.variable)] = node.variable
        todo.extend(following for following, _ in node.next_functions if following is not None)
    return list(found.values())


def _go_on(context, peer, message, parts):
    """Gradients of tensors that were sent from here."""
    mine = _entered(context)
    tensors = mine.sends[peer, message]
    mine.backward([tensors[index] for index in parts], list(parts.values()))


def _entered(id):
    """What this worker knows of the context; nothing yet, where it is new here."""
    with _lock:
        if id not in _contexts:
            _contexts[id] = DistAutogradContext(id)
        return _contexts[id]


def _now():
    return getattr(_here, "context", None)


@contextmanager
def _within(id):
    """A call that came within a context runs in it; -1 is none."""
    before, _here.context = _now(), _entered(id) if id >= 0 else None
    try:
        yield
    finally:
        _here.context = before


def _release(id):
    """Forgets a context, here and on the workers that it reached from here."""
    with _lock:
        context = _contexts.pop(id, None)
    if context is not None:
        agent = _agent()
        with _within(-1):
            for peer in context.peers - {agent.info.id}:
                agent.call(agent.workers[peer], _release, (id,))


class context:
    """with context() as context_id: forward across workers, then backward(context_id, [loss])."""

    def __enter__(self):
        self._context = _entered((_agent().info.id << 48) + next(_numbers))
        self._before, _here.context = _now(), self._context
        return self._context.id

    def __exit__(self, *error):
        _here.context = self._before
        _release(self._context.id)


def _known(context_id):
    if context_id not in _contexts:
        raise RuntimeError(f"Could not find autograd context with id: {context_id}")
    return _contexts[context_id]


def backward(context_id, roots, retain_graph=False):
    """Gradients of the sum of the roots, on all workers, into the context."""
    mine = _known(context_id)
    if not roots:
        raise RuntimeError("No tensors provided for gradient computation.")
    for root in roots:
        if not root.requires_grad:
            raise RuntimeError("requires_grad not set on root")
        if root.numel() != 1:
            raise RuntimeError("root is not a scalar, all roots need to be scalar")
    mine.backward(list(roots), [taper.ones_like(root) for root in roots])


def get_gradients(context_id):
    """The gradients of this worker's leaves."""
    mine = _known(context_id)
    with mine.lock:
        return dict(mine.gradients)


def is_available():
    return True
