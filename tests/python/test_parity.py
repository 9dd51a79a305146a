"""What PyTorch answered, recorded (tests/parity): what was right stays right. tests/parity/report.py lists the rest in
docs/parity.md."""

import pathlib
import subprocess
import sys

import pytest

PARITY = pathlib.Path(__file__).resolve().parent.parent / "parity"
KINDS = [kind for kind in ("module", "optim", "schedule") if (PARITY / f"right_{kind}.txt").exists()]


def check(program, *args):
    return subprocess.run(
        [sys.executable, PARITY / program, "--module", "taper", "--quiet", *args], capture_output=True, text=True
    )


def test_operators_that_were_right_still_are():
    run = check("check.py", "--require", PARITY / "right.txt")
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]


@pytest.mark.parametrize("kind", KINDS)
def test_layers_optimisers_and_schedules_that_were_right_still_are(kind):
    run = check("check_nn.py", "--kind", kind, "--require", PARITY / f"right_{kind}.txt")
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]


@pytest.mark.parametrize("program,name,kind", [("check.py", "abs", "value"), ("check_nn.py", "ReLU", "module")])
def test_the_check_can_fail(tmp_path, program, name, kind):
    wanted = tmp_path / "wanted.txt"
    for line in ("no_such_name value=1/1", f"{name} {kind}=1000/1000"):
        wanted.write_text(line + "\n")
        run = check(program, "--op", name, "--require", wanted)
        assert run.returncode == 1
        assert line.split("=")[0] in run.stdout
