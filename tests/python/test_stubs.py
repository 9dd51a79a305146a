"""The type stubs: what tools/stubs.py writes now is what the package holds, and type checkers accept a sample program by them."""

import filecmp
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent


def stubs(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*.pyi"))


def test_the_stubs_are_fresh(tmp_path):
    subprocess.run([sys.executable, ROOT / "tools" / "stubs.py", tmp_path], check=True)
    package = ROOT / "python" / "taper"
    assert stubs(tmp_path) == stubs(package)
    stale = [str(path) for path in stubs(tmp_path) if not filecmp.cmp(tmp_path / path, package / path, shallow=False)]
    assert not stale, "'make docs' writes them anew"


@pytest.mark.parametrize("checker", [["mypy", "--strict"], ["pyright"]], ids=lambda checker: checker[0])
def test_a_sample_program_passes(checker, tmp_path):
    if checker[0] == "pyright":
        pytest.importorskip("pyright")
    sample = tmp_path / "sample.py"
    sample.write_text((HERE / "typing_sample.py").read_text())
    done = subprocess.run([sys.executable, "-m", *checker, sample], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
