"""A fresh environment has no NumPy: what the package itself does must not need it."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import copy

import pytest

TRAINING = Path(__file__).parent / "child_programs" / "training_without_numpy.py"


@pytest.fixture
def run(tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "numpy.py").write_text("raise ModuleNotFoundError('No module named numpy')\n")

    def run(*command):
        path = os.pathsep.join([str(hidden), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-m", "taper", *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    with pytest.raises(AssertionError, match="No module named numpy"):
        run("run", "-c", "import numpy")
    return run


@pytest.mark.parametrize("example, most", [("digits", "500"), ("shakespeare", "1500")])
def test_train(run, example, most):
    assert "SHA-256 of the weights" in run("train", example, "--most", most, "--epochs", "1")


def test_a_training_of_ones_own(run, tmp_path):
    copy(TRAINING, tmp_path / "train.py")
    assert "Linear(in_features=2" in run("run", "train.py")
    assert "loss" in run("watch", "runs", "--once")


@pytest.mark.parametrize("command", [["info"], ["info", "--json"], ["names", "softmax"]])
def test_commands(run, command):
    assert run(*command)
