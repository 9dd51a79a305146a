"""`make bench`: Taper beside PyTorch on the rows of rows.py, in one run, turn by turn; writes results.md, results.png
and results.json here.

    python bench/compare.py [--rounds 3] [--only gpt,lstm] [--threads 2] [--one-thread] [--scaling 1,2,4,8,16]
    [--compiled] [--pytorch PYTHON] [--out FOLDER]

A group of rows runs in a process of its own, first Taper's, then PyTorch's, in every round; a row's time is its best
round's, so that noise hits both alike. What memory alone decides differs by half from minute to minute on a shared
machine: rows that are behind what is wanted after that, or ahead by less than a quarter, are measured again with both
processes alive and by turns of a twentieth of a second, of which the middle one counts; the report names them. PyTorch
comes from --pytorch, from TAPER_PYTORCH, or from a virtual environment that is made once under build/. --compiled adds
both sides under torch.compile. --scaling adds both sides at each of these numbers of threads, and how many times faster
than with the first number each row is.

"rounds differ" is by how much the slowest round of a side is slower than its best one, Taper's and PyTorch's: a ratio
that is nearer to 1 than that may be noise.
"""

import argparse
import datetime
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import chart
import python as package
import rows as workloads

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
COMPILED = ["mlp_tiny", "branches", "bandwidth", "cifar_32", "cifar_512", "resnet", "gpt"]
ONE_THREAD = ["bandwidth", "gemm", "cifar_32", "resnet", "gpt", "lstm"]
SCALING = ["bandwidth", "gemm", "attention", "gpt", "lstm"]
WANTED = {
    "add_1elem": 3,
    "tiny_backward": 8,
    "mlp_tiny_train_step": 5,
    "exp_big": 1.5,
    "gelu_big": 1.5,
    "transpose_copy": 3,
    "max_dim1": 3,
    "cumsum": 2,
    "cifar_net_train_b32": 2,
    "resnet18_cifar_train": 1.15,
    "gpt_char_train": 1.5,
    "lstm_train": 1.5,
}
CLOSE, TURNS_SECONDS, LEAST_TURNS, PAUSE = 1.25, 8, 5, 0.03


def pytorch(named):
    """An interpreter that has PyTorch; made under build/ if none is named."""
    for python in (named, os.environ.get("TAPER_PYTORCH")):
        if python:
            if (
                not shutil.which(python)
                or subprocess.run([python, "-c", "import torch"], capture_output=True).returncode
            ):
                raise SystemExit(f"compare.py: {python} is no Python that has PyTorch")
            return python
    folder = os.path.join(ROOT, "build", "pytorch")
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(os.path.join(folder, "ready")):
        print("Installing PyTorch from PyPI into build/pytorch, once; TAPER_PYTORCH names another Python that has it")
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        from PIL import __version__ as pillow  # both sides decode images with the same one

        subprocess.run(
            [
                python,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "torch",
                "torchvision",
                "numpy",
                f"pillow=={pillow}",
                "--extra-index-url",
                "https://download.pytorch.org/whl/cpu",
            ],
            check=True,
        )
        open(os.path.join(folder, "ready"), "w").close()
    return python


def images(folder, count=64):
    """JPEG files for the loading row: smooth pictures with some grain, 256 by 192."""
    from PIL import Image

    for i in range(count):
        grain = Image.effect_noise((256, 192), 40)
        slope = Image.linear_gradient("L").resize((256, 192)).rotate(11 * i)
        Image.merge("RGB", (grain, slope, grain.transpose(Image.Transpose.FLIP_LEFT_RIGHT))).save(
            os.path.join(folder, f"{i:03d}.jpg"), quality=90
        )


class Side:
    """One module in one interpreter, with or without torch.compile: its best times and peaks so far."""

    def __init__(self, name, module, python, compiled=False, threads=2):
        self.name, self.module, self.python, self.compiled, self.threads = name, module, python, compiled, threads
        self.best, self.worst, self.peak, self.of, self.by_turns = {}, {}, {}, {}, []

    def command(self, group, folder, *more):
        command = [
            self.python,
            os.path.join(HERE, "rows.py"),
            self.module,
            group,
            "--threads",
            str(self.threads),
            "--folder",
            folder,
            *more,
        ]
        command += ["--compile"] if self.compiled else []
        if self.module == "taper":  # rows name torchvision and PIL as scripts do
            command[1:2] = ["-m", "taper", "run", command[1]]
        return {"args": command, "text": True, "env": {**os.environ, "OMP_NUM_THREADS": str(self.threads)}}

    def run(self, group, seconds, folder):
        done = subprocess.run(**self.command(group, folder, "--seconds", str(seconds)), capture_output=True)
        if done.returncode:
            print(
                f"{self.name}, {group}: {(done.stderr.strip().splitlines() or ['failed'])[-1][:200]}", file=sys.stderr
            )
            return
        result = json.loads(done.stdout.strip().splitlines()[-1])
        for name, value in result["rows"].items():
            self.best[name] = min(self.best.get(name, math.inf), value)
            self.worst[name] = max(self.worst.get(name, 0), value)
        self.of[group] = list(result["rows"])
        self.peak[group] = min(self.peak.get(group, math.inf), result["peak"])

    def differs(self, name):
        """By how much the row's slowest round is slower than its best one."""
        return f"{self.worst[name] / self.best[name] - 1:.0%}" if name in self.worst else "-"


def machine():
    name = "an unnamed processor"
    try:
        with open("/proc/cpuinfo") as info:
            name = next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {len(os.sched_getaffinity(0))} cores, {datetime.date.today()}"


def duration(seconds):
    if seconds is None:
        return ""
    return (
        f"{seconds * 1e6:.2f} us"
        if seconds < 1e-3
        else f"{seconds * 1e3:.2f} ms"
        if seconds < 1
        else f"{seconds:.2f} s"
    )


def table(title, first, second, wanted):
    """Markdown, and the ratios in its order."""
    lines, ratios = (
        [
            f"| {title} | {first.name} | {second.name} | ratio | wanted | rounds differ |",
            "|---|---:|---:|---:|---:|---:|",
        ],
        {},
    )
    for name, theirs in second.best.items():
        ours = first.best.get(name)
        if ours:
            ratios[name] = theirs / ours
        least = wanted.get(name, 1)
        verdict = (
            "missing" if not ours else f"{theirs / ours:.2f}" if theirs / ours >= least else f"**{theirs / ours:.2f}**"
        )
        noise = f"{first.differs(name)}, {second.differs(name)}"
        lines.append(f"| {name} | {duration(ours)} | {duration(theirs)} | {verdict} | {least:g} | {noise} |")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        lines += [
            "",
            f"{sum(ratio >= 1 for ratio in ratios.values())} of {len(second.best)} rows ahead, geometric mean {mean:.2f}.",
        ]
    if first.by_turns:
        lines += [f"By short turns: {', '.join(first.by_turns)}."]
    return lines, ratios


def threads_title(threads):
    return f"{threads} thread{'s' if threads != 1 else ''}"


def scaling(compared, counts):
    """Markdown: how many times faster each row is with more threads than with the fewest, on either side."""
    sides = {title: (first, second) for title, first, second, _ in compared}
    chosen = [sides[threads_title(count)] for count in counts]
    lines = ["| times faster than with " + threads_title(counts[0]) + " | " + " | ".join(map(str, counts[1:])) + " |"]
    lines += ["|---|" + "---:|" * (len(counts) - 1)]
    for name in chosen[0][1].best:
        if any(name not in side.best for both in chosen for side in both):
            continue
        cells = []
        for both in chosen[1:]:
            gains = [base.best[name] / side.best[name] for base, side in zip(chosen[0], both)]
            cells.append(f"{gains[0]:.1f} (PyTorch {gains[1]:.1f})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def memory(first, second):
    lines = ["| peak memory, MB | " + first.name + " | " + second.name + " |", "|---|---:|---:|"]
    for group, theirs in second.peak.items():
        if group in first.peak:
            lines.append(f"| {group} | {first.peak[group] / 1e6:.0f} | {theirs / 1e6:.0f} |")
    return lines


def installed(side):
    """Megabytes of the module as a wheel puts it there."""
    if side.module == "taper":
        import taper

        return package.package_size(os.path.dirname(taper.__file__))
    code = f"import {side.module}, os; print(os.path.realpath(os.path.dirname({side.module}.__file__)))"
    folder = subprocess.run([side.python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    files = {
        os.path.realpath(os.path.join(where, name))
        for where, _, names in os.walk(folder)
        for name in names
        if not name.endswith(".pyc")
    }
    return sum(map(os.path.getsize, files)) / 1e6


def start(first, second):
    lines = ["| start | " + first.name + " | " + second.name + " |", "|---|---:|---:|"]
    rows = {}
    for side in (first, second):
        plain = package.start_time(side.python, "pass", 5)
        rows.setdefault("import, ms", []).append(package.start_time(side.python, f"import {side.module}", 5) - plain)
        if shutil.which("strace"):
            rows.setdefault("files opened", []).append(
                package.files_opened(side.python, f"import {side.module}") - package.files_opened(side.python, "pass")
            )
        rows.setdefault("installed, MB", []).append(installed(side))
    return lines + [f"| {name} | {ours:.0f} | {theirs:.0f} |" for name, (ours, theirs) in rows.items()], rows


def pairs(options, theirs):
    """(title, first side, second side, groups) of what is to be compared."""
    ours, groups = sys.executable, options.only.split(",") if options.only else list(workloads.GROUPS)
    made = [
        (
            "eager",
            Side("Taper", "taper", ours, threads=options.threads),
            Side("PyTorch", "torch", theirs, threads=options.threads),
            groups,
        )
    ]
    if options.one_thread:
        made.append(
            (
                "one thread",
                Side("Taper", "taper", ours, threads=1),
                Side("PyTorch", "torch", theirs, threads=1),
                [g for g in ONE_THREAD if g in groups],
            )
        )
    for threads in options.scaling:
        made.append(
            (
                threads_title(threads),
                Side("Taper", "taper", ours, threads=threads),
                Side("PyTorch", "torch", theirs, threads=threads),
                [g for g in SCALING if g in groups],
            )
        )
    if options.compiled:
        made.append(
            (
                "compiled",
                Side("Taper", "taper", ours, True, options.threads),
                Side("PyTorch", "torch", theirs, True, options.threads),
                [g for g in COMPILED if g in groups],
            )
        )
    return made


def turn(title, first, second, group, options, folder):
    """Each side once, on all rows of the group."""
    print(f"{title}: {group}", file=sys.stderr)
    first.run(group, options.seconds, folder)
    second.run(group, options.seconds, folder)


def close_rows(title, first, second, group):
    """Those of the group that are behind what is wanted, or hardly ahead. Files are not for short turns: what one side
    has not written yet, the other's wait for the disk would pay for."""
    if group == "checkpoint":
        return []
    wanted = WANTED if title == "eager" else {}
    return [
        name
        for name in second.of.get(group, [])
        if name in first.best and second.best[name] < CLOSE * wanted.get(name, 1) * first.best[name]
    ]


def short_turns(title, first, second, group, row, folder):
    """Measures a row again with both sides alive."""
    print(f"{title}: {group}, {row} by short turns", file=sys.stderr)
    both, times = [], ([], [])
    for side in (first, second):
        process = subprocess.Popen(
            **side.command(group, folder, "--turns", row), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        both.append(process)
        process.stdout.readline()  # that it is ready
    end = time.perf_counter() + TURNS_SECONDS
    while len(times[1]) < LEAST_TURNS or time.perf_counter() < end:
        for process, taken in zip(both, times):
            time.sleep(PAUSE)  # OpenMP's threads look out for work for milliseconds after theirs
            try:
                print("go", file=process.stdin, flush=True)
                taken.append(float(process.stdout.readline()))
            except (OSError, ValueError):
                print(f"{title}: {group}, {row}: a side ended; what the rounds gave stays", file=sys.stderr)
                for other in both:
                    other.kill()
                return
    for side, process, taken in zip((first, second), both, times):
        process.communicate("end\n")
        side.best[row] = statistics.median(taken)
        side.worst[row] = max(taken)
    first.by_turns.append(row)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--one-thread", action="store_true")
    parser.add_argument("--scaling", default="", help="numbers of threads, the fewest first")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--pytorch", default="")
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    if not all(count.isdigit() and int(count) for count in options.scaling.split(",") if options.scaling):
        parser.error(f"--scaling: expected numbers of threads such as 1,2,4, got {options.scaling}")
    options.scaling = [int(count) for count in options.scaling.split(",")] if options.scaling else []
    unknown = [group for group in options.only.split(",") if group and group not in workloads.GROUPS]
    if unknown:
        parser.error(f"no group of rows is named {', '.join(unknown)}; there are {', '.join(workloads.GROUPS)}")
    options.out = options.out or (
        os.path.join(ROOT, "build", "bench") if options.only else HERE
    )  # a part does not replace the whole
    os.makedirs(options.out, exist_ok=True)  # before the work, not after it
    compared = pairs(options, pytorch(options.pytorch))
    with tempfile.TemporaryDirectory() as folder:
        images(folder)
        everything = [(title, first, second, group) for title, first, second, groups in compared for group in groups]
        for _ in range(options.rounds):
            for each in everything:
                turn(*each, options, folder)
        for each in everything:
            for row in close_rows(*each):
                short_turns(*each, row, folder)
    report(options, compared)


def report(options, compared):
    lines, results = (
        [
            f"{machine()}; best of {options.rounds} rounds, turn by turn; where it is close, the middle one of many short turns. Ratios above 1: Taper is faster; bold: short of what is wanted.",
            "",
        ],
        {},
    )
    for title, first, second, groups in compared:
        if not groups:
            continue
        part, ratios = table(title, first, second, WANTED if title == "eager" else {})
        lines += [*part, ""]
        results[title] = {
            "first": first.best,
            "second": second.best,
            "ratios": ratios,
            "peak": [first.peak, second.peak],
        }
        print("\n".join(part), "\n\n" + chart.terminal(ratios) + "\n" if ratios else "")
        name = "results" + ("" if title == "eager" else "_" + title.replace(" ", "_")) + ".png"
        if ratios and not chart.png(
            os.path.join(options.out, name), ratios, f"times faster than PyTorch, {title}; {machine()}"
        ):
            print("no chart as PNG: this Python has no matplotlib", file=sys.stderr)
    if len(options.scaling) > 1:
        part = scaling(compared, options.scaling)
        lines += [*part, ""]
        print("\n".join(part), "\n")
    first, second = compared[0][1:3]
    part, results["start"] = start(first, second)
    lines += [*memory(first, second), "", *part]
    print("\n".join([*memory(first, second), "", *part]))
    with open(os.path.join(options.out, "results.md"), "w") as out:
        out.write("\n".join(lines) + "\n")
    with open(os.path.join(options.out, "results.json"), "w") as out:
        json.dump(results, out, indent=1)


if __name__ == "__main__":
    main()
