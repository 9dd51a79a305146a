"""`taper doctor`: what keeps a machine from being fast, and what to do about it.

Each check looks at one thing and yields findings: (level, subject, what is so, what to do). Level "ok" is fine, "note"
is worth knowing, "slow" costs time and has a remedy, "unread" is a setting without effect, "wrong" gives wrong
numbers. A check reads files below a root and
variables of an environment that tests can replace.
"""

import os
import re
import sys

from taper import _environment, _topology

SHARED = {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "afs", "ceph", "panfs", "fuse.sshfs", "9p"}
CUDA_LIBRARIES = {
    "cuBLASLt": "nvidia-cublas-cu12",
    "cuDNN": "nvidia-cudnn-cu12",
    "NVRTC": "nvidia-cuda-nvrtc-cu12",
    "cuSOLVER": "nvidia-cusolver-cu12",
    "cuFFT": "nvidia-cufft-cu12",
    "NCCL": "nvidia-nccl-cu12",
}


class Machine:
    """What checks look at: files below a root, variables, and what `taper info` tells."""

    def __init__(self, root="/", environment=None, facts=None, processors=None):
        from taper import _report

        self.root = root
        self.environment = os.environ if environment is None else environment
        self.facts = _report.facts() if facts is None else facts
        self.processors = sorted(os.sched_getaffinity(0)) if processors is None else sorted(processors)

    def path(self, name):
        return os.path.join(self.root, name.lstrip("/"))

    def read(self, name):
        """A small file's text, "" where there is none."""
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as file:
                return file.read(1 << 20).strip()
        except OSError:
            return ""

    def exists(self, name):
        return os.path.exists(self.path(name))

    def takes_files(self, folder):
        """Can files be written to the folder, which may still have to be made?"""
        at = self.path(folder)
        while not os.path.lexists(at) and at != os.path.dirname(at):
            at = os.path.dirname(at)
        return os.path.isdir(at) and os.access(at, os.W_OK | os.X_OK)

    def mpi4py(self):
        """The kind of MPI that mpi4py is built for; None where that is not known. Nothing starts MPI here."""
        try:
            from mpi4py import get_config

            return _kind_of_mpi(str(get_config()))
        except ImportError:
            return None

    def wrong_products(self):
        """The dtypes whose products differ from those of whole numbers, which no library computes."""
        import taper

        wrong = []
        for dtype in (taper.float32, taper.float64, taper.complex64, taper.complex128):
            for m, k, n in ((3, 5, 7), (64, 64, 64), (129, 131, 65)):
                a = (taper.arange(m * k).reshape(m, k) * 7) % 23 - 11
                b = (taper.arange(k * n).reshape(k, n) * 5) % 19 - 9
                if not taper.equal(a.to(dtype) @ b.to(dtype), (a @ b).to(dtype)) and str(dtype) not in wrong:
                    wrong.append(str(dtype))
        return wrong

    def library(self, name):
        return next((entry for entry in self.facts["libraries"] if entry["name"] == name), None)


# ---- The processor ----
def blas(machine):
    entry = machine.library("BLAS") or {}
    text = f"{entry.get('version')} in {entry.get('file')}"
    what = entry.get("version") or ""
    if re.match(r"lib(c?blas|gslcblas|lapack)\b", what):  # the reference tells nothing of itself but its file's name
        yield (
            "slow",
            "BLAS",
            f"{text}: the reference BLAS is ten times slower or more for float64 and complex products",
            "build with another one: make CMAKE_ARGS=-DTAPER_BLAS=OpenBLAS (docs/installing.md)",
        )
    elif "for one thread" in what or "serial" in what.lower():
        yield (
            "slow",
            "BLAS",
            f"{text}: built for one thread, so calls of several threads take turns",
            "install an OpenMP or pthread build (libopenblas-openmp-dev, openblas-openmp)",
        )
    else:
        yield "ok", "BLAS", text, ""


def products(machine):
    wrong = machine.wrong_products()
    if wrong:
        yield (
            "wrong",
            "products",
            f"products of matrices of {', '.join(wrong)} are wrong: the BLAS has a bug on this processor",
            "use another version or another BLAS (docs/installing.md); until then OpenBLAS may be right with "
            "OPENBLAS_CORETYPE=ARMV8 (Arm) or OPENBLAS_CORETYPE=HASWELL (x86-64)",
        )
    else:
        yield "ok", "products", "float32, float64 and complex ones are right", ""


def instructions(machine):
    level = machine.environment.get("TAPER_ISA")
    if level:
        yield "slow", "instructions", f"TAPER_ISA={level} holds kernels back", "unset TAPER_ISA"
    elif "no AVX2" in machine.facts["processor"] and os.uname().machine == "x86_64":
        yield "note", "instructions", "this processor has no AVX2: kernels run at the x86-64 baseline", ""
    else:
        yield "ok", "instructions", machine.facts["processor"], ""


def onednn(machine):
    if machine.environment.get("TAPER_ONEDNN") == "0":
        yield "slow", "oneDNN", "TAPER_ONEDNN=0 turns it off", "unset TAPER_ONEDNN"
        return
    entry = machine.library("oneDNN")
    if entry is None or not entry["version"]:
        yield (
            "note",
            "oneDNN",
            "not found: large convolutions run on Taper's own kernels",
            "install libdnnl (apt install libdnnl3, dnf install onednn) where it is allowed",
        )
    else:
        yield "ok", "oneDNN", f"{entry['version']} in {entry['file']}", ""


# ---- Threads and where they may run ----
def _cores_of(machine, processors):
    """Physical cores among some processors, where /sys tells; else their number."""
    seen = set()
    for processor in processors:
        siblings = machine.read(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
        seen.add(min(_topology.cpus(siblings)) if _topology.cpus(siblings) else processor)
    return len(seen)


def threads(machine):
    count, processors = machine.facts["threads"], len(machine.processors)
    cores = _cores_of(machine, machine.processors)
    given = machine.environment.get("OMP_NUM_THREADS")
    text = f"{count} on {processors} processors ({cores} cores)"
    if count > processors:
        yield (
            "slow",
            "threads",
            f"{text}: threads wait for each other's processor",
            f"set OMP_NUM_THREADS={cores}, or ask the scheduler for {count} processors (srun -c, mpiexec --depth)",
        )
    elif count < cores:
        why = f"OMP_NUM_THREADS={given} " if given else ""
        yield "slow", "threads", f"{text}: {why}leaves cores idle", f"set OMP_NUM_THREADS={cores}, or unset it"
    else:
        yield "ok", "threads", text, ""


def affinity(machine):
    online = _topology.cpus(machine.read("/sys/devices/system/cpu/online"))
    if online and len(machine.processors) < len(online):
        count = len(machine.processors)
        numbers = _topology.ranges(machine.processors)
        text = f"this process may use {count} of {len(online)} processors (number {numbers})"
        if count == 1:
            yield (
                "slow",
                "affinity",
                f"{text}: all its threads share one",
                "ask for more per rank: srun -c 8 --cpu-bind=cores, mpiexec --depth=8 --cpu-bind depth, "
                "mpirun --map-by slot:PE=8, or taper launch --cpu-bind cores",
            )
        else:
            yield "ok", "affinity", text, ""
    places = machine.environment.get("OMP_PLACES", "")
    outside = {int(n) for n in re.findall(r"\d+", places)} - set(machine.processors) if "{" in places else set()
    if outside and ":" not in places:
        yield (
            "slow",
            "affinity",
            f"OMP_PLACES names processors that this process may not use: {sorted(outside)}",
            "unset OMP_PLACES, or name processors of the rank's own mask",
        )
    nodes = _topology.cpus(machine.read("/sys/devices/system/node/online"))
    mine = set(machine.processors)
    used = [n for n in nodes if _topology.cpus(machine.read(f"/sys/devices/system/node/node{n}/cpulist")) & mine]
    if len(used) > 1:
        yield (
            "note",
            "affinity",
            f"one process spans {len(used)} NUMA nodes",
            f"a rank per node is often faster: taper launch --nproc {len(used)} --cpu-bind numa script.py",
        )


def cgroup(machine):
    group = next((line[3:] for line in machine.read("/proc/self/cgroup").split("\n") if line.startswith("0::")), "/")
    limit, memory = "max", "max"
    while True:
        below = "/sys/fs/cgroup" + group.rstrip("/")
        limit = machine.read(below + "/cpu.max") if limit.startswith("max") else limit
        memory = machine.read(below + "/memory.max") if memory in ("max", "") else memory
        limit = limit or "max"
        if group in ("/", ""):
            break
        group = os.path.dirname(group)
    quota, _, period = limit.partition(" ")
    if quota.isdigit():
        allowed = int(quota) / int(period or 100000)
        count = machine.facts["threads"]
        text = f"the cgroup allows {allowed:g} processors' time"
        if count > allowed + 0.5:
            yield (
                "slow",
                "cgroup",
                f"{text}, and {count} threads are stopped when it is used up",
                f"set OMP_NUM_THREADS={max(1, int(allowed))}, or raise the limit (docker run --cpus)",
            )
        else:
            yield "ok", "cgroup", text, ""
    if memory.isdigit():
        yield "note", "cgroup", f"memory is limited to {int(memory) / 2**30:.1f} GiB", ""


def governor(machine):
    now = machine.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if now in ("powersave", "conservative", "ondemand"):
        driver = machine.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver")
        if now == "powersave" and driver in ("intel_pstate", "amd-pstate-epp"):
            yield "ok", "clock", f"governor powersave of {driver}, which follows the load", ""
        else:
            yield (
                "slow",
                "clock",
                f"the governor is {now}: cores take time to reach their clock",
                "as root: cpupower frequency-set -g performance",
            )
    elif now:
        yield "ok", "clock", f"governor {now}", ""


def load(machine):
    words = machine.read("/proc/loadavg").split()
    # The load is the whole machine's: a rank's own processors are not all that carry it.
    count = len(_topology.cpus(machine.read("/sys/devices/system/cpu/online")) or machine.processors)
    if words and float(words[0]) > count * 1.25:
        yield (
            "slow",
            "load",
            f"other work runs here: {words[0]} processes for {count} processors",
            "wait, or take a node of your own (srun --exclusive)",
        )
    elif words:
        yield "ok", "load", f"{words[0]} on {count} processors", ""


# ---- Memory and files ----
def memory(machine):
    state = machine.read("/sys/kernel/mm/transparent_hugepage/enabled")
    if "[never]" in state:
        yield (
            "slow",
            "huge pages",
            "transparent huge pages are off: large tensors miss the TLB",
            "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )
    elif state:
        yield "ok", "huge pages", re.sub(r".*\[(\w+)\].*", r"\1", state), ""
    numbers = dict(re.findall(r"^(\w+):\s+(\d+) kB", machine.read("/proc/meminfo"), re.M))
    total, free = int(numbers.get("MemTotal", 0)), int(numbers.get("MemAvailable", 0))
    if total and free < total * 0.05:
        yield (
            "slow",
            "memory",
            f"{free / 2**20:.1f} of {total / 2**20:.1f} GiB are free: the machine swaps soon",
            "end other programs, or use smaller batches",
        )
    elif total:
        yield "ok", "memory", f"{free / 2**20:.1f} of {total / 2**20:.1f} GiB free", ""


def _mount(machine, path):
    """(kind, mount point) of the file system that holds a path."""
    path, best = os.path.realpath(path), ("", "")
    for line in machine.read("/proc/mounts").split("\n"):
        words = line.split()
        if len(words) > 2:
            at = words[1].replace("\\040", " ")
            inside = path == at or path.startswith(at.rstrip("/") + "/")
            if inside and len(at) >= len(best[1]):
                best = words[2], at
    return best


def files(machine):
    home = machine.environment.get("HOME", "/")
    cache = machine.environment.get("TAPER_CACHE") or os.path.join(
        machine.environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "taper"
    )
    kind, at = _mount(machine, cache)
    if kind in SHARED:
        yield (
            "slow",
            "kernel cache",
            f"{cache} is on {kind} ({at}), which all ranks read when they start",
            "set TAPER_CACHE to a folder of the node's own: export TAPER_CACHE=/tmp/taper-$USER",
        )
    elif not machine.takes_files(cache):
        yield (
            "slow",
            "kernel cache",
            f"{cache} cannot be written: kernels are compiled anew by each run",
            "set TAPER_CACHE to a folder that can be: export TAPER_CACHE=/tmp/taper-$USER",
        )
    elif kind:
        yield "ok", "kernel cache", f"{cache} on {kind}", ""
    kind, at = _mount(machine, sys.prefix)
    if kind in SHARED and machine.facts["rank"] is not None:
        yield (
            "note",
            "Python",
            f"{sys.prefix} is on {kind} ({at}): many ranks that start at once read it at once",
            "copy the environment to the node's own disk, or use a container (packaging/apptainer)",
        )
    try:
        space = os.statvfs(machine.path("/dev/shm"))
        free = space.f_bavail * space.f_frsize
        if free < 512 << 20:
            yield (
                "slow",
                "shared memory",
                f"/dev/shm has {free >> 20} MiB: batches of loaders' worker processes do not fit",
                "give it more (docker run --shm-size=8g, apptainer --bind /dev/shm), or use num_workers=0",
            )
        else:
            yield "ok", "shared memory", f"/dev/shm has {free / 2**30:.1f} GiB", ""
    except OSError:
        yield (
            "slow",
            "shared memory",
            "there is no /dev/shm: worker processes cannot share batches",
            "use num_workers=0",
        )


# ---- Settings ----
def variables(machine):
    known = {**_environment.VARIABLES, **_environment.OPENMP}
    for name, value, expected in _environment.unread(machine.environment, known):
        yield "unread", name, f"'{value}' cannot be read", f"expected {expected}; else unset it"
    for name, near in _environment.misspelt(machine.environment):
        yield "unread", name, "no part of Taper reads it", f"did you mean {near}?"


# ---- Devices and MPI ----
def gpus(machine):
    found = machine.facts["accelerators"]
    hardware = {
        "cuda": machine.exists("/dev/nvidia0") or machine.exists("/dev/kfd"),
        "xpu": any(
            machine.read(f"/sys/class/drm/{name}/device/vendor") == "0x8086"
            for name in (os.listdir(machine.path("/sys/class/drm")) if machine.exists("/sys/class/drm") else ())
            if name.startswith("renderD")
        ),
    }
    for kind, state in found.items():
        if not state["devices"]:
            if hardware[kind]:
                yield (
                    "slow",
                    kind,
                    f"this machine has a GPU that Taper cannot use: {state['missing']}",
                    "load the driver's module (module load cuda, rocm), or check CUDA_VISIBLE_DEVICES, "
                    "ROCR_VISIBLE_DEVICES and ZE_AFFINITY_MASK",
                )
            continue
        yield "ok", kind, f"{len(state['devices'])} by {state['backend']}", ""
        for library in state["libraries"]:
            if not library["file"]:
                package = CUDA_LIBRARIES.get(library["name"])
                how = f"pip install {package}, or " if package else ""
                yield (
                    "slow",
                    f"{kind} {library['name']}",
                    f"not found; {library['instead']} for {library['serves']}",
                    f"{how}name its folder in TAPER_CUDA_PATH or LD_LIBRARY_PATH",
                )
    if found["cuda"]["devices"] and machine.facts["library"]:
        archive = os.path.join(os.path.dirname(machine.facts["library"]), "taper-kernels-cuda.bin")
        if not os.path.exists(archive):
            yield "note", "kernels", "no kernels were compiled ahead: the first run compiles them", "run make kernels"


def _kind_of_mpi(text):
    lower = text.lower()
    if "open mpi" in lower or "openmpi" in lower or "openrte" in lower:
        return "openmpi"
    return "mpich" if any(word in lower for word in ("mpich", "hydra", "intel", "pals", "cray", "mvapich")) else None


def _launcher(machine):
    """The kind of MPI whose launcher started this process, by its variables."""
    if any(name.startswith("OMPI_COMM_WORLD_") for name in machine.environment):
        return "openmpi"
    named = any(name in machine.environment for name in ("PMI_RANK", "PALS_RANKID", "HYDI_CONTROL_FD"))
    return "mpich" if named else None


def _mpiexec(machine):
    """The kind of MPI that mpiexec in PATH belongs to."""
    import shutil
    import subprocess

    program = shutil.which("mpiexec", path=machine.environment.get("PATH", ""))
    if program is None:
        return None, None
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return program, None
    return program, _kind_of_mpi(done.stdout + done.stderr)


def mpi(machine):
    here = os.path.dirname(machine.facts["library"] or "")
    built = [kind for kind in ("openmpi", "mpich") if os.path.exists(os.path.join(here, f"libtaper-mpi-{kind}.so"))]
    launcher = _launcher(machine)
    program, kind = (None, launcher) if launcher else _mpiexec(machine)
    if kind is None:
        if program:
            yield "note", "MPI", f"{program} does not tell what MPI it belongs to", ""
        return
    source = "the launcher's variables" if launcher else program
    if kind not in built:
        yield (
            "slow",
            "MPI",
            f"{source} are of {kind}'s kind, and Taper has {'no plug-in' if not built else ' and '.join(built)}: "
            "ranks talk over TCP",
            "build with that MPI's compiler: make CMAKE_ARGS=-DTAPER_MPICC=/path/mpicc (docs/installing.md)",
        )
        return
    wanted = machine.environment.get("TAPER_MPI", "")
    if wanted in ("openmpi", "mpich") and wanted != kind:
        yield (
            "slow",
            "MPI",
            f"TAPER_MPI={wanted}, but {source} are of {kind}'s kind: each rank would be alone",
            f"unset TAPER_MPI, or start with {wanted}'s mpiexec",
        )
        return
    loaded = machine.mpi4py()
    if loaded and loaded != kind:
        yield (
            "slow",
            "MPI",
            f"mpi4py is built for {loaded}, the launcher is of {kind}'s kind",
            f"build mpi4py anew for {kind}, or start with {loaded}'s mpiexec",
        )
        return
    yield "ok", "MPI", f"{kind}, by {source}; plug-in found", ""
    if machine.environment.get("MPICH_GPU_SUPPORT_ENABLED") == "1":
        yield (
            "note",
            "MPI",
            "MPICH_GPU_SUPPORT_ENABLED=1: Cray's MPI_Init ends programs that are not linked with its library for GPUs",
            "export MPICH_GPU_SUPPORT_ENABLED=0",
        )


CHECKS = (
    blas,
    products,
    instructions,
    onednn,
    threads,
    affinity,
    cgroup,
    governor,
    load,
    memory,
    files,
    variables,
    gpus,
    mpi,
)


def examine(machine):
    """All findings, as dicts."""
    names = "level", "subject", "text", "remedy"
    return [dict(zip(names, finding)) for check in CHECKS for finding in check(machine)]


def arguments(parser):
    """Adds the options of `taper doctor`."""
    parser.add_argument("--json", action="store_true", help="as a JSON list, for programs")


def main(options):
    """Prints the findings; status 1 where something costs time, has no effect or is wrong."""
    findings = examine(Machine())
    slow, unread, wrong = (
        sum(finding["level"] == level for finding in findings) for level in ("slow", "unread", "wrong")
    )
    status = int(slow + unread + wrong > 0)
    if options.json:
        import json

        print(json.dumps(findings, indent=2))
        return status
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    colours = {"ok": 32, "note": 36, "slow": 33, "unread": 31, "wrong": 31}
    for finding in findings:
        mark = f"{finding['level']:<6}"
        mark = f"\x1b[{colours[finding['level']]}m{mark}\x1b[0m" if colour else mark
        print(f"{mark} {finding['subject'] + ':':<16} {finding['text']}")
        if finding["remedy"]:
            print(f"{'':23} -> {finding['remedy']}")
    told = f"{slow} of these cost{'s' * (slow == 1)} time" if slow else "nothing here keeps Taper from being fast"
    told += f"; {unread} {'has' if unread == 1 else 'have'} no effect" if unread else ""
    print(f"\n{told}" + (f"; {wrong} {'is' if wrong == 1 else 'are'} WRONG" if wrong else ""))
    return status
