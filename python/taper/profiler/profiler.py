"""torch.profiler.profile: profiles of whole programs, by a schedule over their steps."""

import json
import warnings
from bisect import bisect_right
from enum import Enum, IntEnum

from taper.autograd import profiler as autograd_profiler

__all__ = [
    "supported_activities",
    "ProfilerAction",
    "schedule",
    "tensorboard_trace_handler",
    "profile",
    "ExecutionTraceObserver",
]


class ProfilerActivity(IntEnum):
    """What to record: operators, and what GPUs do for them."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5

    def __str__(self):
        return f"ProfilerActivity.{self.name}"


class ProfilerAction(Enum):
    """What a step of a schedule does."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


_DEVICES = {ProfilerActivity.CUDA: "cuda", ProfilerActivity.XPU: "xpu"}


def supported_activities():
    """The CPU, and the kinds of GPUs that are here."""
    from taper import _C

    return {ProfilerActivity.CPU} | {activity for activity, kind in _DEVICES.items() if _C._gpu_count(kind) > 0}


def kineto_available():
    return True


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A function from a step's number to its action: skip_first steps once, then cycles of wait, warmup and active
    ones."""
    if not (wait >= 0 and warmup >= 0 and active > 0 and repeat >= 0 and skip_first >= 0):
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)

    ends = (wait, wait + warmup, wait + warmup + active - 1)  # where the cycle's NONE, WARMUP and RECORD end

    def action_of(step):
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        cycle, place = divmod(step - skip_first + (wait if skip_first_wait else 0), ends[-1] + 1)
        if step < skip_first or 0 < repeat <= cycle:
            place = -1
        return ProfilerAction.NONE if place < 0 else ProfilerAction(bisect_right(ends, place))

    return action_of


def _default_schedule_fn(step):
    return ProfilerAction.RECORD


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """An on_trace_ready that writes a trace per cycle where TensorBoard's profiler plugin looks for it."""
    import os
    import socket
    import time

    def write(prof):
        try:
            os.makedirs(dir_name, exist_ok=True)
        except Exception as error:
            raise RuntimeError("Can't create directory: " + dir_name) from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        prof.export_chrome_trace(
            os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else ""))
        )

    return write


_FLAGS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")


class _KinetoProfile:
    """A profile that is started and stopped by hand."""

    def __init__(
        self,
        *,
        activities=None,
        record_shapes=False,
        profile_memory=False,
        with_stack=False,
        with_flops=False,
        with_modules=False,
        experimental_config=None,
        execution_trace_observer=None,
        acc_events=False,
        custom_trace_id_callback=None,
        post_processing_timeout_s=None,
    ):
        self.activities = set(activities) if activities else supported_activities()
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules, self.acc_events = with_flops, with_modules, acc_events
        self.experimental_config, self.execution_trace_observer = experimental_config, execution_trace_observer
        self.set_custom_trace_id_callback(custom_trace_id_callback)
        self.profiler = None
        self.use_device = next((kind for activity, kind in _DEVICES.items() if activity in self.activities), None)
        self._metadata = {}

    def start(self):
        self.prepare_trace()
        self.start_trace()

    def stop(self):
        self.stop_trace()

    def prepare_trace(self):
        """A fresh profile, unless events add up over several."""
        if self.acc_events and self.profiler is not None:
            return
        settings = {name: getattr(self, name) for name in (*_FLAGS, "acc_events")}
        self.profiler = autograd_profiler.profile(
            use_cpu=ProfilerActivity.CPU in self.activities, use_device=self.use_device, **settings
        )

    def start_trace(self):
        self._need("starting trace")._start()

    def stop_trace(self):
        self._need("stopping trace")._stop()

    def _need(self, what):
        running = self.profiler
        if running is None:
            raise AssertionError(f"Profiler must be initialized before {what}")
        return running

    def toggle_collection_dynamic(self, enable, activities):
        running = self.profiler
        if running is not None:
            running.toggle_collection_dynamic(enable, activities)

    def export_chrome_trace(self, path):
        """Writes the trace for chrome://tracing or Perfetto; a path that ends in .gz is compressed."""
        from taper.profiler._trace import write_trace

        events = self._need("exporting chrome trace").function_events
        flags = {name: 1 for name in _FLAGS if getattr(self, name)}
        write_trace(path, events if events is not None else [], {**flags, **self._metadata})

    def export_stacks(self, path, metric="self_cpu_time_total"):
        return self._need("exporting stacks").export_stacks(path, metric)

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        """One row per operator."""
        return self._need("getting key averages").key_averages(group_by_input_shape, group_by_stack_n)

    def events(self):
        """Every event, in the order they began."""
        return self._need("accessing events").function_events

    def add_metadata(self, key, value):
        self._metadata[key] = value

    def add_metadata_json(self, key, value):
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def get_trace_id(self):
        return None if self.custom_trace_id_callback is None else self.custom_trace_id_callback()

    def set_custom_trace_id_callback(self, callback):
        self.custom_trace_id_callback = callback

    def export_memory_timeline(self, path, device=None):
        from taper._hook import NotCovered

        raise NotCovered("torch.profiler.profile.export_memory_timeline")


class profile(_KinetoProfile):
    """Profiles a block, or steps of it by a schedule: call step() after each."""

    def __init__(
        self,
        *,
        activities=None,
        schedule=None,
        on_trace_ready=None,
        record_shapes=False,
        profile_memory=False,
        with_stack=False,
        with_flops=False,
        with_modules=False,
        experimental_config=None,
        execution_trace_observer=None,
        acc_events=False,
        use_cuda=None,
        custom_trace_id_callback=None,
        post_processing_timeout_s=None,
    ):
        if use_cuda is not None:
            warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2)
            activities = set(activities) if activities else supported_activities()
            (activities.add if use_cuda else activities.discard)(ProfilerActivity.CUDA)
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
        )
        self.schedule = schedule or _default_schedule_fn
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num, self.step_rec_fn, self.current_action = 0, None, self.schedule(0)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stop()

    def start(self):
        self._move(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def stop(self):
        self._end_step()
        self._move(self.current_action, None)

    def step(self):
        """The next step begins; at the end of a cycle on_trace_ready is called."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._move(before, self.current_action)
        self._begin_step()

    def _begin_step(self):
        self.step_rec_fn = (
            autograd_profiler.record_function(f"ProfilerStep#{self.step_num}").__enter__()
            if self.record_steps
            else None
        )

    def _end_step(self):
        step, self.step_rec_fn = self.step_rec_fn, None
        if step is not None:
            step.__exit__(None, None, None)

    def _move(self, before, now):
        """From one step's action to the next one's; `now` None: the end."""
        was, will = before in _RECORDING, now in _RECORDING
        ends = was and not (will and before is ProfilerAction.RECORD)
        unused = before is ProfilerAction.WARMUP and now in (ProfilerAction.NONE, None)
        if now is not None and (unused or (before is ProfilerAction.RECORD and not will)):
            warnings.warn(f"Incorrect schedule: {before.name} followed by {now.name}", stacklevel=4)
        if unused:
            self.start_trace()
        if unused or ends:
            self.stop_trace()
        if ends and self.on_trace_ready and (before is ProfilerAction.RECORD_AND_SAVE or now is None):
            self.on_trace_ready(self)
        if now is ProfilerAction.WARMUP or (will and before not in (ProfilerAction.WARMUP, ProfilerAction.RECORD)):
            self.prepare_trace()
        if will and (ends or not was):
            self.start_trace()


class ExecutionTraceObserver:
    """Execution traces are PyTorch's own file format; none are written."""

    def __init__(self):
        from taper._hook import NotCovered

        raise NotCovered("torch.profiler.ExecutionTraceObserver")
