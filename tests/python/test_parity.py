"""What PyTorch answered, recorded (tests/parity): an operator that was right stays right. tests/parity/report.py lists the rest in docs/parity.md."""
import pathlib
import subprocess
import sys

PARITY = pathlib.Path(__file__).resolve().parent.parent / "parity"


def test_operators_that_were_right_still_are():
    run = subprocess.run([sys.executable, PARITY / "check.py", "--module", "taper", "--quiet", "--require", PARITY / "right.txt"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert "operators with every case right" in run.stdout


def test_the_check_can_fail(tmp_path):
    wanted = tmp_path / "wanted.txt"
    wanted.write_text("no_such_operator\n")
    run = subprocess.run([sys.executable, PARITY / "check.py", "--module", "taper", "--quiet", "--op", "abs", "--require", wanted], capture_output=True, text=True)
    assert run.returncode == 1 and "no_such_operator" in run.stdout
