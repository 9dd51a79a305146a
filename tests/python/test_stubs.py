"""The type stubs: what tools/stubs.py writes now is what the package holds, and type checkers accept a sample program
by them."""

import filecmp
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("TAPER_BUILD_DIR", ROOT / "build"))


def stubs(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*.pyi"))


def test_the_stubs_are_fresh(tmp_path):
    subprocess.run([sys.executable, ROOT / "tools" / "stubs.py", tmp_path], check=True)
    package = ROOT / "python" / "taper"
    assert stubs(tmp_path) == stubs(package)
    stale = [str(path) for path in stubs(tmp_path) if not filecmp.cmp(tmp_path / path, package / path, shallow=False)]
    assert not stale, "'make reference' writes them anew"


# Pyright as basedpyright has it, which PyPI's package holds whole (pyright's own downloads it from elsewhere), with
# pyright's own rules. What mypy knows of the stubs is kept in the build, and read again while they are the same.
CHECKERS = {
    "mypy": ["mypy", "--cache-dir", str(BUILD / "mypy")],
    "pyright": ["basedpyright", "--level", "error", "--pythonpath", sys.executable],
}


def check(checker, folder, *options):
    """Has a type checker read the programs of a folder."""
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    programs = sorted(path.name for path in folder.glob("*.py"))
    command = [sys.executable, "-m", *CHECKERS[checker], *options, *programs]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("checker", CHECKERS)
def test_sample_programs_pass(checker, tmp_path):
    for program in ("typing_sample.py", "typing_training.py"):
        shutil.copy(HERE / program, tmp_path)
    check(checker, tmp_path, *(["--strict"] if checker == "mypy" else []))


def as_taper(text):
    """An example with its imports of torch spelled as Taper's, for a checker that knows no hook."""
    text = re.sub(r"^import torch$", "import taper as torch", text, flags=re.M)
    text = re.sub(r"^(import|from) torchvision", r"\1 taper.torchvision", text, flags=re.M)
    return re.sub(r"^(import|from) torch\b", r"\1 taper", text, flags=re.M)


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_accepts_the_examples(checker, tmp_path):
    for path in (ROOT / "examples" / "python").glob("*.py"):
        (tmp_path / path.name).write_text(as_taper(path.read_text()))
    check(checker, tmp_path)


def test_a_checker_accepts_the_stubs(tmp_path):
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    files = [str(ROOT / "python" / "taper" / path) for path in stubs(ROOT / "python" / "taper")]
    done = subprocess.run(
        [sys.executable, "-m", *CHECKERS["pyright"], *files], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
