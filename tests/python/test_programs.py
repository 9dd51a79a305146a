"""Small programs as a PyTorch user writes them, run unchanged under `taper run`: each prints what it printed under
PyTorch (NAME.txt)."""

import pathlib
import subprocess
import sys

import pytest

PROGRAMS = sorted((pathlib.Path(__file__).parent / "programs").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_prints_what_pytorch_printed(program):
    done = subprocess.run([sys.executable, "-m", "taper", "run", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == program.with_suffix(".txt").read_text()


def test_there_are_ten():
    assert len(PROGRAMS) >= 10
