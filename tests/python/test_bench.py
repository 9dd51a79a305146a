"""The benchmark's harness: rows run and report, tables mark what falls short, bars are drawn to scale."""

import json
import os
import subprocess
import sys

BENCH = os.path.join(os.path.dirname(__file__), "..", "..", "bench")
sys.path.insert(0, BENCH)
import chart  # noqa: E402
import compare  # noqa: E402
import rows  # noqa: E402


def test_a_group_reports_its_rows_and_its_peak():
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "taper",
            "run",
            os.path.join(BENCH, "rows.py"),
            "taper",
            "mlp_tiny",
            "--threads",
            "1",
            "--seconds",
            "0.01",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert set(result["rows"]) == {"mlp_tiny_train_step"}
    assert 0 < result["rows"]["mlp_tiny_train_step"] < 1
    assert 1e6 < result["peak"] < 1e9


def test_tables_mark_what_falls_short():
    first, second = compare.Side("A", "taper", "python"), compare.Side("B", "torch", "python")
    first.best, second.best = {"x": 1e-6, "y": 1.0}, {"x": 4e-6, "y": 0.5, "z": 2e-3}
    first.worst, second.worst = {"x": 1.1e-6, "y": 1.0}, {"x": 5e-6, "y": 0.55, "z": 2e-3}
    lines, ratios = compare.table("eager", first, second, {"x": 3, "y": 1})
    assert ratios == {"x": 4.0, "y": 0.5}
    assert "| x | 1.00 us | 4.00 us | 4.00 | 3 | 10%, 25% |" in lines
    assert "| y | 1.00 s | 500.00 ms | **0.50** | 1 | 0%, 10% |" in lines
    assert "| z |  | 2.00 ms | missing | 1 | -, 0% |" in lines
    assert lines[-1] == "1 of 3 rows ahead, geometric mean 1.41."


def test_scaling_says_how_much_faster_more_threads_are():
    compared = []
    for threads, ours, theirs in (1, 8.0, 12.0), (2, 4.0, 8.0), (4, 2.5, 6.0):
        first, second = compare.Side("A", "taper", "python"), compare.Side("B", "torch", "python")
        first.best, second.best = {"x": ours, "alone": 1.0}, {"x": theirs}
        compared.append((compare.threads_title(threads), first, second, ["group"]))
    lines = compare.scaling(compared, [1, 2, 4])
    assert lines[0] == "| times faster than with 1 thread | 2 | 4 |"
    assert lines[2:] == ["| x | 2.0 (PyTorch 1.5) | 3.2 (PyTorch 2.0) |"]


def test_a_row_by_turns():
    command = [
        sys.executable,
        "-m",
        "taper",
        "run",
        os.path.join(BENCH, "rows.py"),
        "taper",
        "overhead",
        "--threads",
        "1",
        "--turns",
        "matmul_16",
    ]
    done = subprocess.run(command, input="go\ngo\nend\n", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    ready, first, second, report = done.stdout.splitlines()
    assert ready == "ready matmul_16"
    assert 0 < float(first) < 1
    assert 0 < float(second) < 1
    assert json.loads(report)["rows"] == {}


def test_which_rows_are_close():
    first, second = compare.Side("A", "taper", "python"), compare.Side("B", "torch", "python")
    second.of = {"overhead": ["add_1elem", "view_reshape", "slice_index"], "checkpoint": ["checkpoint_save_1gb"]}
    first.best = {"add_1elem": 1, "view_reshape": 1, "slice_index": 1, "checkpoint_save_1gb": 1}
    second.best = {"add_1elem": 3.5, "view_reshape": 1.2, "slice_index": 1.5, "checkpoint_save_1gb": 0.5}
    assert compare.close_rows("eager", first, second, "overhead") == ["add_1elem", "view_reshape"]
    assert compare.close_rows("compiled", first, second, "overhead") == ["view_reshape"]
    assert compare.close_rows("eager", first, second, "checkpoint") == []
    first.by_turns.append("view_reshape")
    assert compare.table("eager", first, second, {})[0][-1] == "By short turns: view_reshape."


def test_bars_start_at_one():
    assert (
        chart.bar(1) == " " * 20 + "|"
        and chart.bar(16) == " " * 20 + "|" + "#" * 20
        and chart.bar(1 / 16) == "-" * 20 + "|"
    )
    assert chart.bar(1000) == chart.bar(16) and chart.bar(4).count("#") == 10


def test_every_group_that_is_compared_exists():
    assert set(compare.COMPILED) | set(compare.ONE_THREAD) <= set(rows.GROUPS)
