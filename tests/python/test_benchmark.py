"""torch.utils.benchmark: measurements, what they print, and the tables that compare them, as PyTorch's."""

import pytest
import taper as torch
from taper.utils.benchmark import Compare, Measurement, TaskSpec, Timer, select_unit, trim_sigfig


def spec(stmt="f(x)", **kwargs):
    return TaskSpec(stmt, "pass", **kwargs)


def body(measurement):
    return repr(measurement).split("\n", 1)[1]


def test_statements_are_timed_with_their_globals_and_threads():
    before, seen = torch.get_num_threads(), []
    timer = Timer(
        "seen.append(torch.get_num_threads()); x + 1",
        "x = torch.ones(2)",
        globals={"seen": seen},
        num_threads=2,
        label="L",
        sub_label="S",
    )
    measured = timer.timeit(10)
    assert (measured.number_per_run, len(measured.raw_times), set(seen)) == (10, 1, {2})
    assert torch.get_num_threads() == before
    assert measured.median == measured.mean == measured.raw_times[0] / 10
    assert body(measured).startswith("L: S\nsetup: x = torch.ones(2)\n")
    assert body(measured).endswith("  1 measurement, 10 runs , 2 threads")


def clock(step):
    """A clock that moves only when the statement moves it."""
    now = [0.0]

    def advance():
        now[0] += step

    return (lambda: now[0]), advance


def test_autorange_runs_long_enough():
    read, advance = clock(1e-3)
    measured = Timer("advance()", timer=read, globals={"advance": advance}).blocked_autorange(min_run_time=0.5)
    assert sum(measured.raw_times) >= 0.5
    assert measured.median == pytest.approx(1e-3, rel=1e-6)
    measured = Timer("advance()", timer=read, globals={"advance": advance}).adaptive_autorange(min_run_time=0.01)
    assert len(measured.raw_times) >= 3
    assert measured.iqr < 1e-9


def test_a_measurement_prints_as_pytorchs():
    wide = Measurement(
        10,
        [1e-2, 1.1e-2, 5e-2, 1e-2],
        TaskSpec("f(x)", "setup()", sub_label="sub", description="desc", env="E", num_threads=4),
    )
    assert (
        body(wide)
        == """\
f(x): sub
desc
setup: setup()
  Median: 1.05 ms
  IQR:    1.07 ms (1.00 to 2.08)
  4 measurements, 10 runs per measurement, 4 threads
  WARNING: Interquartile range is 102.4% of the median measurement.
           This suggests significant environmental influence."""
    )
    assert body(Measurement(1, [2.5e-6], spec())) == "f(x)\n  2.50 us\n  1 measurement, 1 runs , 1 thread"
    assert Measurement(10000, [0.06429268500141916], spec()).significant_figures == 2
    assert select_unit(2e-5) == ("us", 1e-6)
    assert trim_sigfig(1234.5, 2) == 1200


TABLE = """\
[---------- ops ----------]
           |   10   |  1000
1 threads: ----------------
      add  |  12.3  |  10.0
      mul  |  13.9  |  11.7
2 threads: ----------------
      add  |   9.0  |  13.3
      mul  |  14.6  |   7.4

Times are in microseconds (us).
"""

TRIMMED = """\
[--------- ops ---------]
           |  10  |  1000
1 threads: --------------
      add  |  10  |   10 
      mul  |  10  |   10 
2 threads: --------------
      add  |   9  |   10 
      mul  |  10  |    7 

Times are in microseconds (us).
"""


def measurements():
    times = {
        ("add", "10", 1): 12.3,
        ("add", "1000", 1): 10.0,
        ("add", "10", 2): 9.0,
        ("add", "1000", 2): 13.3,
        ("mul", "10", 1): 13.9,
        ("mul", "1000", 1): 11.7,
        ("mul", "10", 2): 14.6,
        ("mul", "1000", 2): 7.4,
    }
    return [
        Measurement(
            1,
            [time * 1e-6, time * 1.2e-6, time * 0.8e-6],
            spec(label="ops", sub_label=row, description=column, num_threads=threads),
        )
        for (row, column, threads), time in times.items()
    ]


def test_tables_are_pytorchs(capsys):
    assert str(Compare(measurements())) == TABLE
    compare = Compare(measurements())
    compare.trim_significant_figures()
    compare.print()
    assert capsys.readouterr().out == TRIMMED + "\n"
    compare.colorize()
    assert str(compare).count("\x1b[92m") == 2  # the best of each column
    compare.highlight_warnings()
    assert "(! 20%)" in str(compare)
    assert str(compare).endswith("where XX is the IQR / median * 100.\n")


def test_what_is_not_there_says_so():
    with pytest.raises(NotImplementedError, match="not in Taper yet"):
        Timer("x", language="c++")
    with pytest.raises((OSError, NotImplementedError), match="valgrind|collect_callgrind"):
        Timer("pass").collect_callgrind()
    with pytest.raises(ValueError, match="Measurement"):
        Compare([3])
