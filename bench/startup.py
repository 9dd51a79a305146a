"""Start-up of a job: ranks that import torch, make a process group, all_reduce once and leave; Taper beside PyTorch
with gloo, by turns in one run.

    python bench/startup.py [--ranks 8] [--rounds 3] [--pytorch PYTHON]

Wall time is the best round's. Processor time, of all processes together, is the best round's too; other work on the
machine hardly adds to it, and divided by the cores it is what the wall time would be without that. Beside them stand as
many bare `python -c pass` and `import taper`.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

from compare import pytorch

PROGRAM = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(4)
dist.all_reduce(x)
assert x[0] == dist.get_world_size()
dist.destroy_process_group()
"""
MPI = {"openmpi": ["mpirun.openmpi", "--oversubscribe"], "mpich": ["mpiexec.mpich"]}


def together(count, command):
    """That many processes at once."""
    processes = [subprocess.Popen(command) for _ in range(count)]
    return max(process.wait() for process in processes)


def sides(ranks, script, other):
    """What is measured: (what, a function that runs it and gives the exit status)."""

    def run(*command):
        return lambda: subprocess.run(command).returncode

    yield "python -c pass", lambda: together(ranks, [sys.executable, "-c", "pass"])
    yield "import taper", lambda: together(ranks, [sys.executable, "-c", "import taper"])
    yield "taper launch", run(sys.executable, "-m", "taper", "launch", "--nproc", str(ranks), script)
    for name, launcher in MPI.items():
        if shutil.which(launcher[0]):
            yield f"{launcher[0]}, true", run(*launcher, "-n", str(ranks), "true")
            yield (
                f"{launcher[0]}, taper run",
                run(*launcher, "-n", str(ranks), sys.executable, "-m", "taper", "run", script),
            )
        else:
            print(f"SKIPPED: {launcher[0]} is not on this machine")
    yield (
        "PyTorch, torch.distributed.run",
        run(other, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}", script),
    )


def measure(run):
    """Seconds that pass, and that processors work."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    status = run()
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if status != 0:
        raise SystemExit(f"it ended with status {status}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--ranks", type=int, default=8)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument(
        "--pytorch", help="an interpreter that has PyTorch; default: TAPER_PYTORCH, or one that is made under build/"
    )
    asked = options.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "start.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        best = {}
        rows = list(sides(asked.ranks, script, pytorch(asked.pytorch)))
        for _ in range(asked.rounds):
            for what, run in rows:
                wall, work = measure(run)
                best[what] = tuple(map(min, (wall, work), best.get(what, (wall, work))))
    cores = len(os.sched_getaffinity(0))
    print(
        f"{asked.ranks} ranks, {cores} cores, load {os.getloadavg()[0]:.1f}, best of {asked.rounds} rounds\n\n| what | wall | processor time | that over {cores} cores |\n|---|---:|---:|---:|"
    )
    for what, (wall, work) in best.items():
        print(f"| {what} | {wall:.2f} s | {work:.2f} s | {work / cores:.2f} s |")


if __name__ == "__main__":
    main()
