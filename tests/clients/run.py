"""Packages on top of PyTorch, with Taper in its place: `make test-clients`.

    python tests/clients/run.py [PROGRAM...] [--taper FOLDER] [--pytorch PYTHON] [--turns N] [--record]

Makes an environment outside the tree (${XDG_CACHE_HOME:-~/.cache}/taper-clients), gives it Taper's torch by `taper
torch install`, and the packages of requirements.txt from PyPI, then runs each program of this folder and compares its
numbers with those that PyTorch gave (recorded.json). --taper is the folder that holds the package `taper`; build/python
where it is not given. --pytorch names an interpreter with PyTorch and the same packages: its time stands beside
Taper's, processor seconds of one thread. Then a program runs --turns times in one process (turns.py), the first turn's
numbers count, and the quickest of the other turns is its warm time; what is slower than PyTorch is measured a second
time, and the better of both counts, for either side. --record writes PyTorch's numbers to recorded.json.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded.json"
TOLERANCE = 1e-4  # of a value, and for values below one of one
LIMIT = 600  # seconds that a program may take
NOT_PROGRAMS = "run", "show", "turns"


# ---- The environment ----
def _call(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def environment(package):
    """The Python of an environment with Taper and the packages, made where it is not there or is another one."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "taper-clients"
    python = folder / "bin" / "python"
    files = (
        HERE / "requirements.txt",
        HERE / "requirements-alone.txt",
    )  # the second: packages that ask for old versions of others
    wanted = "".join(file.read_text() for file in files)
    if not python.exists():
        print(f"making {folder}", flush=True)
        venv.create(folder, with_pip=True, symlinks=True)
    site = Path(_call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "taper.pth").write_text(f"{package}\n")
    _call(python, "-m", "taper", "torch", "install")
    done = folder / "requirements.txt"
    if not done.exists() or done.read_text() != wanted:
        print("installing packages from PyPI", flush=True)
        pip = python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"
        _call(*pip, "-r", files[0])
        _call(*pip, "--no-deps", "-r", files[1])
        _call(python, "-m", "taper", "torch", "status")  # fails where a package has put PyTorch in its place
        done.write_text(wanted)
    return python


# ---- Programs ----
def run(python, program, turns=1):
    """({name: numbers} or None, seconds of each turn, the last line of what went wrong)"""
    variables = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": "",
    }
    try:
        done = subprocess.run(
            [str(python), "-W", "ignore", str(HERE / "turns.py"), str(HERE / f"{program}.py"), str(turns)],
            capture_output=True,
            text=True,
            env=variables,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return None, None, f"still runs after {LIMIT} s"
    said = {}
    for line in done.stdout.splitlines():
        what, _, text = line.partition(" ")
        if what in ("NUMBERS", "SECONDS"):
            said.setdefault(what, text)
    if done.returncode == 0 and len(said) == 2:
        return json.loads(said["NUMBERS"]), json.loads(said["SECONDS"]), ""
    told = (done.stderr or done.stdout).strip().splitlines() or [f"ended with {done.returncode}"]
    errors = [line for line in told if re.match(r"[A-Za-z_][\w.]*(Error|Exception|NotCovered)\b", line)]
    return None, None, (errors or told)[-1]


def difference(ours, theirs):
    """The largest difference of two sets of numbers, relative where they are large, and where it is."""
    worst, where = 0.0, ""
    if ours.keys() != theirs.keys():
        return float("inf"), f"names: {sorted(ours.keys() ^ theirs.keys())}"
    for name, values in theirs.items():
        if len(values) != len(ours[name]):
            return float("inf"), f"{name}: {len(ours[name])} numbers in place of {len(values)}"
        for a, b in zip(ours[name], values):
            apart = 0.0 if a == b or a != a and b != b else abs(a - b) / max(1.0, abs(b))
            if not apart <= worst:
                worst, where = apart, name
    return worst, where


def judge(numbers, recorded, complaint):
    """What the table says of a program, and whether it passed."""
    if numbers is None:
        return complaint[:90], False
    if recorded is None:
        return "no numbers of PyTorch's are recorded", False
    worst, where = difference(numbers, recorded)
    return (f"{worst:.0e}" if worst <= TOLERANCE else f"{worst:.1e} in {where}"), worst <= TOLERANCE


def warm(seconds):
    return min(seconds[1:])


def compare(number, program, count, recorded, python, pytorch, turns):
    """Runs one program, says so while it does, and gives its row of the table."""
    print(f"[{number}/{count}] {program} ", end="", flush=True)
    row = {"program": program, "first": None, "warm": None, "beside": None}
    for again in range(2):
        numbers, seconds, complaint = run(python, program, turns)
        if again == 0:
            row["text"], row["passed"] = judge(numbers, recorded, complaint)
        if seconds is None:
            break
        row["first"] = row["first"] or seconds[0]
        if not pytorch:
            break
        theirs, beside, why = run(pytorch, program, turns)
        if theirs is None:
            print(f"PyTorch: {why[:90]}; ", end="")
            break
        row["warm"] = min(row["warm"] or warm(seconds), warm(seconds))
        row["beside"] = min(row["beside"] or warm(beside), warm(beside))
        if row["warm"] <= row["beside"]:
            break
    ratio = "" if row["beside"] is None else f", once warm {row['warm'] / row['beside']:.2f} of PyTorch's time"
    print(f"{row['first']:.1f} s{ratio}" if row["passed"] else f"FAILED: {row['text']}", flush=True)
    return row


def tell(rows):
    """The table, and which programs took longer than with PyTorch; the exit status."""
    print(f"\n{'program':<28} {'first':>8} {'warm':>8} {'PyTorch':>8} {'ratio':>6}  difference")
    for row in rows:
        first, own, beside = ("" if row[k] is None else f"{row[k]:6.2f} s" for k in ("first", "warm", "beside"))
        ratio = "" if row["beside"] is None else f"{row['warm'] / row['beside']:.2f}"
        failed = "" if row["passed"] else "  FAILED"
        print(f"{row['program']:<28} {first:>8} {own:>8} {beside:>8} {ratio:>6}  {row['text']}{failed}")
    slower = [row["program"] for row in rows if row["beside"] is not None and row["warm"] > row["beside"]]
    if slower:
        print(f"slower than with PyTorch once warm: {', '.join(slower)}")
    passed = sum(row["passed"] for row in rows)
    print(f"{passed} of {len(rows)} give PyTorch's numbers")
    return 0 if passed == len(rows) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--taper", default=str(HERE.parent.parent / "build" / "python"))
    parser.add_argument("--python", help="an environment that is ready, in place of the one that would be made")
    parser.add_argument("--pytorch", help="an interpreter with PyTorch and the packages")
    parser.add_argument("--turns", type=int, default=4, help="how often a program runs where times are compared (4)")
    parser.add_argument("--record", action="store_true", help="write PyTorch's numbers")
    asked = parser.parse_args()
    programs = asked.programs or sorted(path.stem for path in HERE.glob("*.py") if path.stem not in NOT_PROGRAMS)
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if asked.record:
        for program in programs:
            numbers, seconds, complaint = run(asked.pytorch, program)
            print(f"{program:<28} {complaint or f'recorded, {seconds[0]:.1f} s'}", flush=True)
            if numbers is not None:
                recorded[program] = numbers
        RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
        return 0
    python = asked.python or environment(asked.taper)
    turns = max(2, asked.turns) if asked.pytorch else 1
    rows = [
        compare(number, program, len(programs), recorded.get(program), python, asked.pytorch, turns)
        for number, program in enumerate(programs, 1)
    ]
    return tell(rows)


if __name__ == "__main__":
    sys.exit(main())
