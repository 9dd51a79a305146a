"""What `import taper` costs, as far as it does not depend on the machine's speed: files opened and modules loaded.
bench/python.py has the times."""

import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent.parent / "bench"))
import python as figures  # noqa: E402


@pytest.mark.skipif(not shutil.which("strace"), reason="strace counts the files")
def test_import_opens_few_files():
    assert figures.files_opened(sys.executable, "import taper") <= figures.LIMITS[
        "files opened"
    ] + figures.files_opened(sys.executable, "pass")


def test_import_loads_nothing_heavy():
    code = "import sys; before = set(sys.modules); import taper; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "typing", "inspect", "dataclasses", "re", "subprocess", "logging", "pickle", "ctypes"} & set(
        loaded
    ), loaded
    assert len(loaded) <= 60


def test_the_package_is_small():
    import taper

    assert figures.package_size(pathlib.Path(taper.__file__).parent) <= figures.LIMITS["package, MB"]
