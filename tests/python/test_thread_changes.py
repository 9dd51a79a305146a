"""A thread that changes tensors under others that compute with them: values are anybody's guess, and errors are fine,
but nothing crashes."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import taper

PROGRAM = Path(__file__).parent / "child_programs" / "thread_changes.py"


@pytest.mark.parametrize("mode", ["resize", "storage", "set", "data", "inplace", "swap", "grad", "backward"])
def test_changes_by_another_thread_do_not_crash(mode):
    done = subprocess.run([sys.executable, str(PROGRAM), mode], capture_output=True, text=True, timeout=300)
    assert done.stdout == "survived\n", (done.returncode, done.stderr[-2000:])


def test_a_change_waits_until_backward_has_read_the_tensor():
    t = taper.ones(3, 4, requires_grad=True)
    change = threading.Thread(target=lambda: setattr(t, "data", taper.ones(2)))
    squares = t * t
    squares.register_hook(lambda grad: (change.start(), change.join(0.02)) and None)
    squares.sum().backward()
    gradient = t.grad
    change.join()
    assert gradient.shape == (3, 4)
    assert t.shape == (2,)
