"""The Python package's figures: import, files opened, size, and microseconds per small call, beside PyTorch's where it
can be imported.

    python bench/python.py [PYTHON_WITH_PYTORCH]

PyTorch is looked for in this interpreter, or in the one named as argument or by the variable TAPER_PYTORCH.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

CALLS = {
    "a + b": "a + b",
    "x.view": "x.view(2, 3)",
    "slice": "x[1:]",
    "index": "m[1]",
    "(x*2).sum().backward()": "(x_grad * 2).sum().backward()",
}
LIMITS = {
    "import, ms": 80,
    "files opened": 60,
    "package, MB": 20,
    "a + b": 0.5,
    "x.view": 0.5,
    "slice": 0.5,
    "(x*2).sum().backward()": 6,
}
INSTALLED = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}  # a package comes with its bytecode
MEASURE = """
import json, sys, timeit
torch = __import__(sys.argv[1])
torch.set_num_threads(1)
names = dict(a=torch.ones(1), b=torch.ones(1), x=torch.arange(6.), m=torch.ones(2, 3), x_grad=torch.ones(4, requires_grad=True))
result = {}
for label, code in json.loads(sys.argv[2]).items():
    timer = timeit.Timer(code, globals=names)
    timer.timeit(2000)
    result[label] = min(timer.repeat(20, 2000)) / 2000 * 1e6
print(json.dumps(result))
"""


def start_time(python, code, rounds=15):
    """Milliseconds from starting the interpreter to its end, the best of several."""
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        subprocess.run([python, "-c", code], check=True, env=INSTALLED)
        best = min(best, time.perf_counter() - begin)
    return best * 1e3


def files_opened(python, code):
    """How many files the process opens, by strace."""
    subprocess.run([python, "-c", code], check=True, env=INSTALLED)
    with tempfile.NamedTemporaryFile() as log:
        subprocess.run(
            ["strace", "-f", "-e", "trace=open,openat", "-o", log.name, python, "-c", code], check=True, env=INSTALLED
        )
        return sum(
            1
            for line in open(log.name, errors="replace")
            if "= -1" not in line and "O_DIRECTORY" not in line and "open" in line
        )


def package_size(folder):
    """Megabytes of the package's files, without what Python compiles on the way; the library counts wherever it lies."""
    with open("/proc/self/maps") as maps:
        library = {line.split()[-1] for line in maps if "libtaper" in line}
    files = {
        os.path.realpath(os.path.join(where, name))
        for where, _, names in os.walk(folder)
        for name in names
        if not name.endswith(".pyc")
    }
    total = 0
    for path in files | {os.path.realpath(path) for path in library}:
        total += stripped_size(path)
    return total / 1e6


def stripped_size(path):
    """A wheel's libraries come without their symbols."""
    if ".so" not in os.path.basename(path) or not shutil.which("strip"):
        return os.path.getsize(path)
    with tempfile.NamedTemporaryFile() as copy:
        subprocess.run(["strip", "-o", copy.name, path], check=True)
        return os.path.getsize(copy.name)


def measure(python, module):
    result = {"import, ms": start_time(python, f"import {module}") - start_time(python, "pass")}
    if shutil.which("strace"):
        result["files opened"] = files_opened(python, f"import {module}") - files_opened(python, "pass")
    calls = subprocess.run(
        [python, "-c", MEASURE, module, json.dumps(CALLS)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},
    )
    return {**result, **json.loads(calls.stdout)}


def pytorch():
    """An interpreter that imports PyTorch, or None."""
    for python in [*sys.argv[1:2], os.environ.get("TAPER_PYTORCH"), sys.executable]:
        if python and subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            return python
    return None


def main():
    import taper

    ours = measure(sys.executable, "taper")
    ours["package, MB"] = package_size(os.path.dirname(taper.__file__))
    python = pytorch()
    theirs = measure(python, "torch") if python else {}
    print(f"{'Python':<26}{'Taper':>10}{'at most':>10}{'PyTorch':>10}   (calls in microseconds)")
    for label, value in ours.items():
        limit = f"{LIMITS[label]:g}" if label in LIMITS else ""
        print(
            f"{label:<26}{value:>10.2f}{limit:>10}{theirs[label]:>10.2f}"
            if label in theirs
            else f"{label:<26}{value:>10.2f}{limit:>10}"
        )
    if not python:
        print("PyTorch is not importable here; TAPER_PYTORCH names an interpreter where it is.")


if __name__ == "__main__":
    main()
