"""Measurement: the times of one statement, and what they say; TaskSpec: what was measured."""

import math
from collections import namedtuple

_MAX_SIGNIFICANT_FIGURES = 4
_MIN_CONFIDENCE_INTERVAL = 25e-9  # no clock tells more
_IQR_WARN, _IQR_GROSS_WARN = 0.1, 0.25
_UNITS = (("ns", "nanosecond", 1e-9), ("us", "microsecond", 1e-6), ("ms", "millisecond", 1e-3), ("s", "second", 1.0))


def select_unit(t):
    """The unit in which a time reads well, and its length in seconds."""
    name, _, scale = max((unit for unit in _UNITS if unit[2] <= t), key=lambda unit: unit[2], default=_UNITS[0])
    return name, scale


def unit_to_english(u):
    return next(english for name, english, _ in _UNITS if name == u)


def trim_sigfig(x, n):
    """x with n significant figures."""
    magnitude = 10 ** (int(math.ceil(math.log10(abs(x)))) - n) if x else 1
    return float(round(x / magnitude) * magnitude)


def ordered_unique(elements):
    return list(dict.fromkeys(elements))


class TaskSpec(
    namedtuple(
        "TaskSpec",
        "stmt setup global_setup label sub_label description env num_threads",
        defaults=("", None, None, None, None, 1),
    )
):
    """What was measured, by which runs are told apart."""

    __slots__ = ()

    @property
    def title(self):
        return self.label or self.stmt if self.sub_label is None else f"{self.label or self.stmt}: {self.sub_label}"

    def setup_str(self):
        if self.setup == "pass" or not self.setup:
            return ""
        return f"setup:\n{_indent(self.setup)}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self):
        """What was measured in a few lines."""
        lines = [self.title, self.description or "", self.setup_str()]
        return "\n".join(line for line in lines if line)


def _indent(text):
    return "\n".join("  " + line for line in text.splitlines())


def _quantile(ordered, q):
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


class Measurement:
    """raw_times of number_per_run runs each."""

    def __init__(self, number_per_run, raw_times, task_spec, metadata=None):
        self.number_per_run, self.raw_times, self.task_spec, self.metadata = (
            number_per_run,
            list(raw_times),
            task_spec,
            metadata,
        )

    def __getattr__(self, name):  # stmt, setup, label, ... are the task's
        if name != "task_spec" and name in TaskSpec._fields:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute '{name}'")

    @property
    def times(self):
        """Of one run each."""
        return [time / self.number_per_run for time in self.raw_times]

    def _ordered(self):
        if not self.raw_times:
            raise ValueError("there are no times yet")
        return sorted(self.times)

    @property
    def median(self):
        return _quantile(self._ordered(), 0.5)

    @property
    def mean(self):
        return sum(self._ordered()) / len(self.raw_times)

    @property
    def iqr(self):
        """The range of the middle half."""
        ordered = self._ordered()
        return _quantile(ordered, 0.75) - _quantile(ordered, 0.25)

    @property
    def significant_figures(self):
        """How many digits of the median can be trusted."""
        ordered = self._ordered()
        middle = ordered[len(ordered) // 4 : math.ceil(3 * len(ordered) / 4)] or ordered
        mean = sum(middle) / len(middle)
        deviation = math.sqrt(sum((time - mean) ** 2 for time in middle) / len(middle))
        interval = max(1.645 * deviation / math.sqrt(len(middle)), _MIN_CONFIDENCE_INTERVAL)
        return min(
            max(int(math.floor(math.log10(self.median / interval))) if self.median > 0 else 1, 1),
            _MAX_SIGNIFICANT_FIGURES,
        )

    @property
    def has_warnings(self):
        return self.iqr / self.median > _IQR_WARN

    def meets_confidence(self, threshold=_IQR_WARN):
        return self.iqr / self.median < threshold

    @property
    def title(self):
        return self.task_spec.title

    @property
    def env(self):
        return "Unspecified env" if self.task_spec.env is None else self.task_spec.env

    @property
    def as_row_name(self):
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __repr__(self):
        unit, scale = select_unit(self.median)
        count, spec, runs = len(self.raw_times), self.task_spec, self.number_per_run
        lines = [f"<{type(self).__module__}.Measurement object at {hex(id(self))}>", spec.summarize()]
        if count == 1:
            lines.append(f"  {self.median / scale:.2f} {unit}")
        else:
            ordered = self._ordered()
            low, high = (_quantile(ordered, q) / scale for q in (0.25, 0.75))
            lines += [
                f"  Median: {self.median / scale:.2f} {unit}",
                f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})",
            ]
        lines.append(
            f"  {count} measurement{'s' if count > 1 else ''}, {runs} runs {'per measurement' if count > 1 else ''}, "
            f"{spec.num_threads} thread{'s' if spec.num_threads > 1 else ''}"
        )
        if count > 1 and self.has_warnings:
            strong = self.iqr / self.median > _IQR_GROSS_WARN
            lines += [
                f"  WARNING: Interquartile range is {self.iqr / self.median * 100:.1f}% of the median measurement.",
                f"           This {'suggests significant' if strong else 'could indicate system'} "
                f"{'environmental influence' if strong else 'fluctuation'}.",
            ]
        return "\n".join(lines)

    @staticmethod
    def merge(measurements):
        """Those of the same task become one."""
        groups = {}
        for measurement in measurements:
            groups.setdefault(measurement.task_spec, []).append(measurement)
        return [Measurement(1, [time for one in group for time in one.times], spec) for spec, group in groups.items()]
