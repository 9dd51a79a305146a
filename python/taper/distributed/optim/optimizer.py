"""DistributedOptimizer: an optimiser on every worker that holds some of the parameters, fed by an autograd context."""

import threading

_one_at_a_time = threading.Lock()


class _LocalOptimizer:
    """One worker's part."""

    def __init__(self, optimizer_class, params, *args, **kwargs):
        self.params = [param.local_value() for param in params]
        self.optimizer = optimizer_class(self.params, *args, **kwargs)

    def step(self, context_id):
        from taper.distributed.autograd import get_gradients

        gradients = get_gradients(context_id)
        with _one_at_a_time:  # workers that share parameters take turns, and .grad stays what it was
            before = [param.grad for param in self.params]
            try:
                for param in self.params:
                    param.grad = gradients.get(param)
                self.optimizer.step()
            finally:
                for param, gradient in zip(self.params, before):
                    param.grad = gradient


class DistributedOptimizer:
    """DistributedOptimizer(optim.SGD, references, lr=0.1): step(context_id) steps on all workers at once."""

    def __init__(self, optimizer_class, params_rref, *args, **kwargs):
        from taper.distributed.rpc import remote

        owned = {}
        for param in params_rref:
            owned.setdefault(param.owner(), []).append(param)
        self.is_functional_optim = False
        self.remote_optimizers = [
            remote(owner, _LocalOptimizer, args=(optimizer_class, params, *args), kwargs=kwargs)
            for owner, params in owned.items()
        ]
        for made in self.remote_optimizers:
            made._home.call(made.owner(), _ready, (made,)).wait()

    def step(self, context_id):
        """One step with the gradients of the context."""
        from taper.distributed.autograd import _known
        from taper.futures import wait_all

        _known(context_id)
        wait_all([optimizer.rpc_async().step(context_id) for optimizer in self.remote_optimizers])


def _ready(rref):
    """Waits until the value is there, and raises what its making raised."""
    rref.local_value()
