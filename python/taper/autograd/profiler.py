"""torch.autograd.profiler: what operators and backward nodes a block ran, how often and how long; and named ranges."""

from taper import _C
from taper.autograd.grad_mode import _DecoratorContextManager

_HOME = _C.__file__.rpartition("/")[0] + "/"
_running = set()  # profiles that record now
__all__ = ["profile", "record_function", "emit_itt", "emit_nvtx", "load_nvprof"]


class record_function(_DecoratorContextManager):
    """A named range, seen in profiles; costs next to nothing without one."""

    def __init__(self, name, args=None):
        self.name, self.args, self._range = name, args, -1

    def __enter__(self):
        self._range = _C._range_begin(self.name)
        return self

    def __exit__(self, *error):
        _C._range_end(self._range)
        self._range = -1

    def clone(self):
        return type(self)(self.name, self.args)


def _stack():
    """The Python frames of the program, innermost first, as texts."""
    import sys

    frame, out = sys._getframe(1), []
    while frame is not None and len(out) < 64:
        code = frame.f_code
        if not code.co_filename.startswith(("<frozen", _HOME)):
            out.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return out


class profile:
    """Records what the thread runs within a `with` block."""

    def __init__(
        self,
        enabled=True,
        *,
        use_cuda=False,
        use_device=None,
        record_shapes=False,
        with_flops=False,
        profile_memory=False,
        with_stack=False,
        with_modules=False,
        use_kineto=False,
        use_cpu=True,
        experimental_config=None,
        acc_events=False,
        custom_trace_id_callback=None,
        post_processing_timeout_s=None,
    ):
        self.enabled, self.use_device = enabled, "cuda" if use_cuda else use_device
        self.record_shapes = record_shapes or with_flops
        self.with_flops, self.profile_memory, self.with_stack, self.with_modules = (
            with_flops,
            profile_memory,
            with_stack,
            with_modules,
        )
        self.acc_events = acc_events
        self.entered = False
        self._running = self._function_events = None

    @property
    def function_events(self):
        return self._function_events

    def __enter__(self):
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._start()
        return self

    def __exit__(self, *error):
        if self.enabled:
            self._stop()
        return False

    def _start(self):
        self._running = _C._profile_start(
            self.record_shapes, _stack if self.with_stack else None, self.use_device is not None
        )
        _running.add(self)

    def _stop(self):
        from taper.autograd.profiler_util import events_from

        if self._running is None:
            return
        running, self._running = self._running, None
        _running.discard(self)
        thread, recorded, activities = _C._profile_stop(running)
        made = events_from(recorded, activities, thread, self.record_shapes, self.profile_memory, self.with_flops)
        if self.acc_events and self._function_events:
            made[:0] = self._function_events
        self._function_events = made

    def _check_finish(self):
        if self._function_events is None:
            raise RuntimeError("Profiler didn't finish running")

    def __repr__(self):
        return "<unfinished torch.autograd.profile>" if self._function_events is None else repr(self._function_events)

    def __str__(self):
        return "<unfinished torch.autograd.profile>" if self._function_events is None else str(self._function_events)

    def table(
        self,
        sort_by=None,
        row_limit=100,
        max_src_column_width=75,
        max_name_column_width=55,
        max_shapes_column_width=80,
        header=None,
        top_level_events_only=False,
        time_unit=None,
    ):
        self._check_finish()
        return self._function_events.table(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
        )

    def export_chrome_trace(self, path):
        self._check_finish()
        self._function_events.export_chrome_trace(path)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        self._check_finish()
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self._function_events.export_stacks(path, metric)

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        self._check_finish()
        return self._function_events.key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self):
        self._check_finish()
        return self._function_events.total_average()

    @property
    def self_cpu_time_total(self):
        """Microseconds spent in what was recorded."""
        self._check_finish()
        return self._function_events.self_cpu_time_total

    def toggle_collection_dynamic(self, enabled, activities):
        """Stops or takes up recording; what came before is kept."""
        if not enabled:
            self._stop()
        elif self._running is None:
            self.acc_events = True
            self._start()


def __getattr__(name):
    if name in ("EventList", "FunctionEvent", "FunctionEventAvg", "Kernel"):
        from taper.autograd import profiler_util

        return getattr(profiler_util, name)
    raise AttributeError(f"module 'torch.autograd.profiler' has no attribute '{name}'")


class emit_nvtx:
    """Marks for NVIDIA's profilers, which need CUDA."""

    def __init__(self, enabled=True, record_shapes=False):
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self):
        if not self.enabled:
            return None
        from taper import cuda

        cuda.synchronize()
        return self

    def __exit__(self, *error):
        return False


class emit_itt:
    """Marks for Intel's VTune, which this build does not have."""

    def __init__(self, enabled=True, record_shapes=False):
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self):
        if self.enabled:
            raise RuntimeError(
                "ITT marks need Intel's library, which Taper is not built with; torch.profiler.profile records on "
                "its own"
            )

    def __exit__(self, *error):
        return False


def load_nvprof(path):
    raise RuntimeError("nvprof's files hold calls of CUDA; Taper has no reader for them")
