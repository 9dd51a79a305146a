"""`taper train`: the same weights, bit for bit, on any number of threads, and after a kill and a resume in the middle
of an epoch."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

import taper

SMALL = {
    "digits": ["--most", "1000", "--epochs", "2", "--save-every", "3"],
    "shakespeare": ["--most", "4000", "--epochs", "2", "--save-every", "3"],
}


def command(example, out, *more):
    return [sys.executable, "-m", "taper", "train", example, "--out", str(out), *SMALL[example], *more]


def run(example, out, *more):
    done = subprocess.run(command(example, out, *more), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def weights(text):
    return re.search("SHA-256 of the weights: ([0-9a-f]{64})", text).group(1)


def kill_between(example, out, first, last):
    """Starts a training and kills it between two steps, both inside of an epoch."""
    process = subprocess.Popen(command(example, out), stdout=subprocess.DEVNULL)
    path, step = os.path.join(out, "checkpoint.pt"), 0
    while step < first and process.poll() is None:
        time.sleep(0.002)
        if os.path.exists(path):
            step = taper.load(path)["step"]  # whatever moment this is, the file is whole
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert first <= taper.load(path)["step"] <= last
    return path


@pytest.mark.parametrize("example", sorted(SMALL))
def test_the_same_bits_on_any_number_of_threads_and_after_a_kill(example, tmp_path):
    whole = run(example, tmp_path / "one", "--threads", "1")
    assert weights(run(example, tmp_path / "two", "--threads", "2")) == weights(whole)
    steps = int(re.search(r"step (\d+)/\1 ", whole).group(1))
    kill_between(example, str(tmp_path / "killed"), 3, steps // 2 - 1)
    rest = run(example, tmp_path / "killed", "--resume", "--threads", "4")
    assert "resumed at step" in rest
    assert weights(rest) == weights(whole)


def test_what_it_shows_and_writes(tmp_path):
    text = run("digits", tmp_path / "run")
    assert "1000 digits, 20538 weights" in text
    assert "test accuracy" in text
    assert "loss over 40 steps" in text
    assert "Twelve digits" in text
    assert any(name.startswith("events.out.tfevents") for name in os.listdir(tmp_path / "run" / "logs"))
    taper.load(tmp_path / "run" / "checkpoint.pt")


def test_mistakes(tmp_path):
    def fails(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "taper", "train", *arguments], capture_output=True, text=True, timeout=60
        )
        assert done.returncode in (1, 2)
        assert "Traceback" not in done.stderr
        return done.stderr

    message = fails("cats")
    assert "EXAMPLE: invalid choice: 'cats'" in message
    assert "digits" in message
    assert "shakespeare" in message
    assert "checkpoint.pt to resume from" in fails("digits", "--out", str(tmp_path / "no"), "--resume")
    assert "No such file" in fails("digits", "--data", str(tmp_path))
