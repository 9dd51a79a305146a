"""Timer: runs a statement often enough to say how long it takes."""

import enum
import textwrap
import timeit
from time import perf_counter as timer

from taper import _C
from taper._hook import NotCovered
from taper.utils.benchmark.measurement import Measurement, TaskSpec


class Language(enum.Enum):
    PYTHON = 0
    CPP = 1


class set_torch_threads:
    """with set_torch_threads(n): operators use n threads."""

    def __init__(self, n):
        self.n = n

    def __enter__(self):
        self.before = _C.get_num_threads()
        _C.set_num_threads(self.n)

    def __exit__(self, *error):
        _C.set_num_threads(self.before)


class Timer:
    """Measures a statement, on one thread unless told otherwise."""

    def __init__(
        self,
        stmt="pass",
        setup="pass",
        global_setup="",
        timer=timer,
        globals=None,
        label=None,
        sub_label=None,
        description=None,
        env=None,
        num_threads=1,
        language=Language.PYTHON,
    ):
        if language not in (Language.PYTHON, "py", "python"):
            raise NotCovered("torch.utils.benchmark.Timer(language='c++')")
        if not isinstance(stmt, str):
            raise ValueError("Only a `str` stmt is supported.")
        if global_setup:
            raise ValueError("`global_setup` is for C++ alone; a Python program puts it into `setup`")
        import taper

        names = dict(globals or {})
        names.setdefault("torch", taper)
        stmt, setup = (textwrap.dedent(text).strip("\n") for text in (stmt, setup))
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)
        self._timer = timeit.Timer(stmt, setup, timer, names)

    def _run(self, number):
        return max(self._timer.timeit(number), 1e-9)  # a clock that did not move does not divide by zero

    def _threads(self):
        return set_torch_threads(self._task_spec.num_threads)

    def timeit(self, number=1000000):
        """One measurement of so many runs."""
        with self._threads():
            self._run(max(int(number // 100), 2))  # warm
            return Measurement(number, [self._run(number)], self._task_spec)

    def repeat(self, repeat=-1, number=-1):
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback=None):
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block(self, min_run_time):
        """How many runs make one measurement: so many that looking at the clock does not count."""
        overhead = sorted(self._run(0) for _ in range(5))[2]
        number = 1
        while True:
            taken = self._run(number)
            if overhead / taken <= 1e-4 and taken >= min_run_time / 1000 or taken > min_run_time or number >= 10**9:
                return number
            number *= 10

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """Measurements of many runs each, for at least min_run_time seconds in all."""
        return self._measure(lambda measured: sum(measured.raw_times) >= min_run_time, min_run_time, callback)

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None):
        """Measurements until the middle half of them lies within `threshold` of the median."""

        def enough(measured):
            total = sum(measured.raw_times)
            return (
                total >= max_run_time
                or len(measured.raw_times) >= 3
                and total >= min_run_time
                and measured.meets_confidence(threshold)
            )

        return self._measure(enough, min_run_time, callback)

    def _measure(self, enough, min_run_time, callback):
        with self._threads():
            measured = Measurement(self._block(min_run_time), [], self._task_spec)
            while not enough(measured):
                measured.raw_times.append(self._run(measured.number_per_run))
                if callback:
                    callback(measured.number_per_run, measured.raw_times[-1])
        return measured

    def collect_callgrind(self, number=100, *, repeats=None, collect_baseline=True, retain_out_file=False):
        """Counts instructions under valgrind: not there."""
        import shutil

        if shutil.which("valgrind") is None:
            raise OSError("Timer.collect_callgrind needs valgrind, which is not installed")
        raise NotCovered("torch.utils.benchmark.Timer.collect_callgrind")
