"""horovod.torch.optimizer: an optimiser whose step waits for gradients that were reduced while the backward ran."""

from contextlib import contextmanager

from taper import distributed as dist
from taper.horovod.torch.compression import Compression
from taper.horovod.torch.mpi_ops import Average, _group, _reduce_handle, global_process_set


class _Distributed:
    """What a DistributedOptimizer has before the optimiser's own class."""

    def _begin(self, names, compression, passes, op, predivide, process_set):
        self._compression, self._passes, self._op, self._group = compression, passes, op, _group(process_set)
        self._before, self._after = (1.0 / predivide, predivide) if predivide != 1.0 and op == Average else (1.0, 1.0)
        self._params = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        self._names = names
        self._left = dict.fromkeys(self._params, passes)
        self._handles, self._synchronized, self._should_synchronize = {}, False, True
        self._active = dist.get_world_size(self._group) > 1
        self._hook_handles = (
            [p.register_post_accumulate_grad_hook(self._arrived) for p in self._params] if self._active else []
        )

    def _arrived(self, p):
        if p in self._handles:
            raise AssertionError(
                "Gradients were computed more than backward_passes_per_step times before call to step(). Increase "
                "backward_passes_per_step to accumulate gradients locally."
            )
        self._left[p] -= 1
        if self._left[p] == 0:
            self._handles[p] = self._start(p)

    def _start(self, p):
        return _reduce_handle(
            p.grad, self._op, self._group, self._before, self._after, self._compression, in_place=True
        )

    def synchronize(self):
        """Waits for all reductions; gradients that no backward came to count as zero."""
        if self._active:
            for p in self._params:
                if p not in self._handles:
                    if p.grad is None:
                        p.grad = p.detach().new_zeros(p.shape)
                    self._handles[p] = self._start(p)
            for p, handle in self._handles.items():
                handle.wait()
        self._handles.clear()
        self._left = dict.fromkeys(self._params, self._passes)
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self):
        """Inside, step() does not wait: synchronize() was called already."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def set_backward_passes_per_step(self, passes):
        self._passes = passes
        self._left = dict.fromkeys(self._params, passes)

    def step(self, closure=None):
        if self._should_synchronize:
            if self._synchronized:
                import warnings

                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after "
                    "optimizer.synchronize(). This can cause training slowdown. You may want to consider using "
                    "optimizer.skip_synchronize() context if you use optimizer.synchronize() in your code."
                )
            self.synchronize()
        self._synchronized = False
        return super().step(closure)

    def zero_grad(self, *args, **kwargs):
        if self._handles:
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or "
                "optimizer.synchronize(). This is prohibited as it can cause a race condition."
            )
        return super().zero_grad(*args, **kwargs)


def DistributedOptimizer(
    optimizer,
    named_parameters=None,
    compression=Compression.none,
    backward_passes_per_step=1,
    op=Average,
    gradient_predivide_factor=1.0,
    num_groups=0,
    groups=None,
    sparse_as_dense=False,
    process_set=global_process_set,
):
    """The optimiser, of a class made from its own, with gradients reduced over all ranks as they come."""
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    names = {}
    if named_parameters is not None:
        named_parameters = list(named_parameters)
        if any(not isinstance(pair, tuple) for pair in named_parameters):
            raise ValueError(
                "named_parameters should be a sequence of tuples (name, parameter), usually produced by "
                "model.named_parameters()."
            )
        listed = [name for name, _ in named_parameters]
        twice = sorted({name for name in listed if listed.count(name) > 1})
        if twice:
            raise ValueError(
                f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(twice)}"
            )
        names = {p: name for name, p in named_parameters}
        unnamed = sum(p not in names for group in optimizer.param_groups for p in group["params"])
        if unnamed:
            raise ValueError(
                f"named_parameters was specified, but one or more model parameters were not named: {unnamed}"
            )
    made = type(optimizer.__class__.__name__, (_Distributed, optimizer.__class__), {})
    optimizer.__class__ = made
    optimizer._begin(names, compression, backward_passes_per_step, op, gradient_predivide_factor, process_set)
    return optimizer
