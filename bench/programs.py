"""Four trainings (MLP, CNN, GPT, LSTM) in C and C++ with Taper, in C++ with LibTorch, in Python with PyTorch.

    python bench/programs.py [BUILD] [--rounds 5] [--seconds 1.5] [--pytorch PYTHON] [--out FILE]

bench/programs/ has them: train.cpp is built twice, against LibTorch (in PyTorch's package) and against Taper's headers
of LibTorch's names. Programs run by turns, and a side's figure is its best round, of one thread in processor time. Start
is a program that draws one tensor; compiling is the processor time of the compiler for train.cpp. Prints the table, and
writes it between the two marks of FILE (bench/README.md)."""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

from compare import pytorch

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BEGIN, END = "<!-- programs -->", "<!-- end of programs -->"
PROGRAMS = ["mlp", "cnn", "gpt", "lstm"]
START = {
    "c": "#include <taper/taper.h>\nint main(void) { tp_tensor *t = tp_randn(TP_INTS(2, 2)); tp_release(t); return !t; }\n",
    "cpp": "#include <torch/torch.h>\nint main() { return torch::randn({2, 2}).numel() != 4; }\n",
    "py": "import torch\ntorch.randn(2, 2)\n",
}


def spent(command):
    """Processor seconds and wall seconds of a command."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.perf_counter() - begin


class Sides:
    """The programs of each side, built in a folder; what compiling them took."""

    def __init__(self, build, python, folder):
        package = subprocess.run(
            [python, "-c", "import os, torch; print(os.path.dirname(torch.__file__), torch._C._GLIBCXX_USE_CXX11_ABI)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        self.python, self.folder = python, folder
        include = [f"-I{ROOT}/include", f"-I{build}/generated/include"]
        ours = ["-L" + build, "-ltaper", "-Wl,-rpath," + build, "-pthread"]
        here = package[0]
        theirs = [f"-L{here}/lib", "-ltorch", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{here}/lib", "-Wl,--no-as-needed"]
        self.flags = {
            "c": (["cc", "-O2", *include], ours),
            "cpp": (["c++", "-O2", "-std=c++17", f"-I{ROOT}/include/taper/libtorch", *include], ours),
            "libtorch": (
                ["c++", "-O2", "-std=c++20", f"-D_GLIBCXX_USE_CXX11_ABI={int(package[1] == 'True')}"]
                + [f"-I{here}/include", f"-I{here}/include/torch/csrc/api/include"],
                theirs,
            ),
        }

    def compile(self, side, source, program):
        command, libraries = self.flags[side]
        took = spent([*command, "-c", source, "-o", f"{self.folder}/{program}.o"])[0]
        subprocess.run(["c++", f"{self.folder}/{program}.o", "-o", f"{self.folder}/{program}", *libraries], check=True)
        return took

    def command(self, side, what):
        program = os.path.join(self.folder, f"{what}_{side}")
        source = os.path.join(HERE, "programs", "train.py") if what == "train" else program + ".py"
        return [self.python, source] if side == "pytorch" else [program]


def measure(options, sides):
    compiling = {}
    for side in ("c", "cpp", "libtorch"):
        kind = "c" if side == "c" else "cpp"
        start = f"{sides.folder}/start_{side}.{kind}"
        open(start, "w").write(START[kind])
        sides.compile(side, start, f"start_{side}")
        source = os.path.join(HERE, "programs", f"train.{kind}")
        compiling[side] = min(sides.compile(side, source, f"train_{side}") for _ in range(2))
    open(f"{sides.folder}/start_pytorch.py", "w").write(START["py"])
    names = [*sides.flags, "pytorch"]
    start = {side: min(spent(sides.command(side, "start"))[1] for _ in range(options.rounds)) for side in names}
    rows = {}
    for program in PROGRAMS:
        for threads in (1, 2):
            best = {}
            for _ in range(options.rounds):
                for side in names:
                    said = subprocess.run(
                        [*sides.command(side, "train"), program, str(threads), str(options.seconds)],
                        capture_output=True,
                        text=True,
                        check=True,
                    ).stdout.split()
                    step, loss, peak = float(said[0]), float(said[1]), int(said[2]) / 1024
                    old = best.get(side, (step, loss, peak))
                    best[side] = (min(step, old[0]), loss, min(peak, old[2]))
            rows[program, threads] = best
    return compiling, start, rows


def table(compiling, start, rows):
    lines = [
        "| program, threads | C | C++, our headers | LibTorch | PyTorch | C / LibTorch | C++ / C | memory, C | LibTorch | share |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for (program, threads), best in rows.items():
        steps = {side: best[side][0] * 1e6 for side in best}
        peak = {side: best[side][2] for side in best}
        lines.append(
            f"| {program}, {threads} | "
            + " | ".join(f"{steps[side]:.0f} us" for side in ("c", "cpp", "libtorch", "pytorch"))
            + f" | {steps['c'] / steps['libtorch']:.2f} | {steps['cpp'] / steps['c']:.2f} | {peak['c']:.0f} MB"
            + f" | {peak['libtorch']:.0f} MB | {peak['c'] / peak['libtorch']:.2f} |"
        )
    lines += [
        "",
        "| | C | C++, our headers | LibTorch | PyTorch |",
        "|---|---:|---:|---:|---:|",
        "| start | " + " | ".join(f"{start[side]:.3f} s" for side in ("c", "cpp", "libtorch", "pytorch")) + " |",
        "| compiling the four | " + " | ".join(f"{compiling[side]:.1f} s" for side in compiling) + " | |",
        "| losses | " + " | ".join(" ".join(f"{rows[p, 1][s][1]:.5f}" for p in PROGRAMS) for s in start) + " |",
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--pytorch")
    parser.add_argument("--out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sides = Sides(os.path.abspath(options.build), pytorch(options.pytorch), folder)
        text = table(*measure(options, sides))
    sys.stdout.write(text)
    if options.out:
        page = open(options.out).read()
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        open(options.out, "w").write(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
