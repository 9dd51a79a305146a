"""torch.autograd.profiler: scopes with a name, and a wall clock around a block."""
from taper.autograd.grad_mode import _DecoratorContextManager

__all__ = ["profile", "record_function", "emit_nvtx", "emit_itt"]


class record_function(_DecoratorContextManager):
    """A named scope; costs nothing."""

    def __init__(self, name, args=None):
        self.name, self.args = name, args

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def clone(self):
        return type(self)(self.name, self.args)


class profile:
    """Measures the time a block takes as a whole; it records no single calls."""

    def __init__(self, enabled=True, **options):
        self.enabled, self.options, self.seconds = enabled, options, 0.0

    def __enter__(self):
        from time import perf_counter
        self._clock = perf_counter
        self._start = perf_counter()
        return self

    def __exit__(self, *error):
        self.seconds = self._clock() - self._start

    @property
    def self_cpu_time_total(self):
        """In microseconds."""
        return self.seconds * 1e6

    def key_averages(self, *args, **kwargs):
        return self

    def table(self, *args, **kwargs):
        return f"Self CPU time total: {self.seconds * 1e3:.3f}ms\n"

    __str__ = table


class emit_nvtx(record_function):
    """Accepted: a scope that does nothing."""

    def __init__(self, enabled=True, record_shapes=False):
        super().__init__("emit_nvtx")


class emit_itt(emit_nvtx):
    """Accepted: a scope that does nothing."""
