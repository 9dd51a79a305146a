"""`taper watch`: curves in the terminal, from the same files as TensorBoard's."""

import os
import pty
import re
import subprocess
import sys
import time

import pytest
from taper.utils.tensorboard import SummaryWriter


def watch(*arguments, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "taper", "watch", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        **kwargs,
    )


def log(folder, tag, values, **kwargs):
    with SummaryWriter(folder, **kwargs) as writer:
        for step, value in enumerate(values):
            writer.add_scalar(tag, value, step)


LINE = """\
loss  0 at step 10
         10│⠉⠒⠢⠤⣀
           │     ⠉⠑⠢⠤⣀⡀
          5│          ⠈⠉⠒⠢⠤⢄⣀⡀
           │                 ⠈⠑⠒⠤⢄⣀
          0│                       ⠉⠑⠒⠤⣀
           └────────────────────────────
            0                         10
"""


def test_a_curve_is_drawn(tmp_path):
    log(tmp_path, "loss", range(10, -1, -1))
    done = watch(tmp_path, "--width", 40, "--height", 5)
    assert done.returncode == 0, done.stderr
    assert done.stdout == LINE + "\n"


TWO = """\
acc  (log)
       1000│○○○○○                  ●●●●●
           │     ○○○○○○      ●●●●●●
         10│          ○○○○○○○●
           │     ●●●●●●●    ○○○○○○○
        0.1│●●●●●                  ○○○○○
           └────────────────────────────
            0                          4
            ● one  1000 at step 4
            ○ two  0.1 at step 4
"""


def test_runs_are_laid_over_each_other(tmp_path):
    log(tmp_path / "one", "acc", [0.1, 1, 10, 100, 1000])
    log(tmp_path / "two", "acc", [1000, 100, 10, 1, 0.1])
    log(tmp_path / "two", "other", [1])
    done = watch(tmp_path, "--width", 40, "--height", 5, "--tag", "a*c", "--log")
    assert done.returncode == 0, done.stderr
    assert done.stdout == TWO + "\n"


def test_smoothing_is_tensorboards(tmp_path):
    log(tmp_path, "x", [0, 1, 1])
    done = watch(tmp_path, "--width", 40, "--height", 3, "--smooth", 0.5)
    top = done.stdout.splitlines()[1].partition("│")[0].strip()
    assert float(top) == pytest.approx(((0 * 0.5 + 0.5) * 0.5 + 0.5) / (1 - 0.5**3), rel=1e-3)


def test_what_cannot_be_drawn_is_said(tmp_path):
    assert watch(tmp_path / "nowhere").stderr == f"taper watch: there is no folder '{tmp_path / 'nowhere'}'\n"
    done = watch(tmp_path)
    assert (done.returncode, done.stderr) == (1, f"taper watch: no event files (*tfevents*) in '{tmp_path}'\n")
    assert "there is no folder 'runs'" in watch(cwd=tmp_path).stderr
    log(tmp_path, "x", [float("nan"), float("inf")])
    assert "no value is finite" in watch(tmp_path).stdout
    assert "no scalars yet with a tag like loss" in watch(tmp_path, "--tag", "loss").stdout
    assert "expected a number from 0" in watch(tmp_path, "--smooth", 2).stderr


def test_purged_steps_and_cut_and_damaged_files(tmp_path):
    log(tmp_path, "x", [5, 5, 5, 5, 100])
    time.sleep(1.1)  # the second is in the file's name
    with SummaryWriter(tmp_path, purge_step=3) as writer:
        writer.add_scalar("x", 1, 3)
        writer.add_scalar("x", 2, 4)
    last = max(tmp_path.iterdir())
    last.write_bytes(last.read_bytes()[:-3])  # as if it were being written
    assert watch(tmp_path).stdout.startswith("x  1 at step 3\n")
    data = bytearray(last.read_bytes())
    data[-60] ^= 1  # within the last whole record
    last.write_bytes(data)
    assert ": 1 damaged record\n" in watch(tmp_path).stdout


def test_live_on_a_terminal(tmp_path):
    """New points appear without asking, in colours, within the terminal's size; Ctrl-C ends it quietly."""
    writer = SummaryWriter(tmp_path / "a", flush_secs=0)
    log(tmp_path / "b", "loss", [1, 2])
    writer.add_scalar("loss", 1, 0)
    screen, terminal = pty.openpty()
    env = {**os.environ, "COLUMNS": "60", "LINES": "20", "TERM": "xterm"}
    env.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "taper", "watch", str(tmp_path), "--interval", "0.1"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=env,
        start_new_session=True,
    )
    os.close(terminal)
    shown = b""
    try:
        while b"a  1 at step 0" not in shown:
            shown += os.read(screen, 65536)
        writer.add_scalar("loss", 0.25, 1)
        while b"a  0.25 at step 1" not in shown:
            shown += os.read(screen, 65536)
    finally:
        process.send_signal(2)
        assert process.wait(10) == 0
        writer.close()
        os.close(screen)
    text = shown.decode()
    assert text.count("\x1b[2J") == 2
    assert "\x1b[36m" in text
    assert "\x1b[33m" in text
    lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text.rpartition("\x1b[2J")[2]).splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 60
