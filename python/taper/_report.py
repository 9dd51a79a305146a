"""`taper info`: the version, the processor, devices, libraries and Python; a line each."""

import os
import sys

from taper import _C, _topology


def version():
    """Taper's own version."""
    return _C._version


def _processor():
    """The processor's name and its widest vectors that kernels are built for."""
    about = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                about.setdefault(name.strip(), value.strip())
    except OSError:
        pass
    import platform

    flags = about.get("flags", "").split()
    vectors = (
        "AVX-512"
        if all(f"avx512{part}" in flags for part in ("f", "dq", "cd", "bw", "vl"))
        else "AVX2"
        if "avx2" in flags
        else "no AVX2"
    )
    chosen = f", TAPER_ISA={os.environ['TAPER_ISA']}" if os.environ.get("TAPER_ISA") else ""
    return f"{about.get('model name') or platform.processor() or platform.machine()} ({vectors}{chosen})"


def _cores():
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count()


def _rank():
    """Which process of a job this is, and the processors that its launcher or scheduler bound it to."""
    launcher, rank, world, _, _ = _C._dist_place()
    if launcher is None:
        return None
    import socket

    return (
        f"{rank} of {world if world > 0 else 'a number that the launcher does not tell'} on {socket.gethostname()} by "
        f"{launcher}, processors {_topology.ranges(sorted(os.sched_getaffinity(0)))}"
    )


def loaded(word):
    """The file of a loaded library whose name begins with a word."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            for line in file:
                path = line.rstrip("\n").partition("/")[2]
                if path and os.path.basename(path).startswith(word):
                    return "/" + path
    except OSError:
        pass
    return None


def _optional(package):
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


_KINDS = "cuda", "xpu"
_MISSING = {
    "zlib": "not in this build: files that are packed (.gz, members of archives) are refused",
    "libpng": "not in this build: decode_png and encode_png refuse",
    "libjpeg": "not in this build: decode_jpeg and encode_jpeg refuse",
}


def _accelerators(kind):
    """The devices of a type, its driver and the libraries that serve it, or what is missing."""
    count = _C._gpu_count(kind)
    if not count:
        return {"devices": [], "missing": _C._gpu_missing(kind)}
    backend = _C._gpu_backend(kind)
    libraries = [
        {"name": name, "serves": serves, "instead": instead, "version": version or None, "file": file or None}
        for whose, name, serves, instead, version, file in _C._gpu_libraries()
        if whose == backend
    ]
    devices = [{"index": i, **_C._gpu_describe(kind, i)} for i in range(count)]
    return {"devices": devices, "backend": backend, "driver": _C._gpu_version(kind), "libraries": libraries}


def facts():
    """All that `taper info` tells, as plain values."""
    import taper

    return {
        "taper": version(),
        "package": os.path.dirname(os.path.abspath(taper.__file__)),
        "library": loaded("libtaper.so"),
        "pytorch_names": taper.__version__.partition("+")[0],
        "processor": _processor(),
        "cores": _cores(),
        "topology": _topology.topology(),
        "threads": taper.get_num_threads(),
        "rank": _rank(),
        "devices": ["cpu", *(f"{kind}:{i}" for kind in _KINDS for i in range(_C._gpu_count(kind)))],
        "libraries": [{"name": name, "version": what, "file": file} for name, what, file in _C._libraries()],
        "accelerators": {kind: _accelerators(kind) for kind in _KINDS},
        "python": {"version": sys.version.split()[0], "executable": sys.executable},
        "numpy": _optional("numpy"),
    }


def _accelerator_rows(kind, found):
    if not found["devices"]:
        yield kind, f"none: {found['missing']}"
        return
    for device in found["devices"]:
        memory = f"{device['memory'] / 2**30:.1f} GiB"
        yield f"{kind}:{device['index']}", f"{device['name']} ({device['arch']}), {device['units']} units, {memory}"
    yield found["backend"], found["driver"]
    for library in found["libraries"]:
        where = f"{library['version'] or ''} in {library['file']}".strip()
        served = f"{where} for {library['serves']}"
        missing = f"not found; {library['instead']} for {library['serves']}"
        yield f"  {library['name']}", served if library["file"] else missing


def _rows(found):
    yield "Taper", f"{found['taper']} in {found['package']}, library {found['library']}"
    yield "PyTorch's names", f"as in {found['pytorch_names']}"
    yield "processor", f"{found['processor']}; {found['cores']} to use"
    yield from _topology.rows(found["topology"])
    yield "threads", f"a team of {found['threads']}"
    if found["rank"] is not None:
        yield "rank", found["rank"]
    yield "devices", ", ".join(found["devices"])
    for library in found["libraries"]:
        text = f"{library['version']} in {library['file']}"
        yield library["name"], text if library["version"] else _MISSING.get(library["name"], "not found")
    for kind in _KINDS:
        yield from _accelerator_rows(kind, found["accelerators"][kind])
    yield "Python", f"{found['python']['version']} in {found['python']['executable']}"
    yield "NumPy", found["numpy"]


def info():
    """Prints it."""
    for name, text in _rows(facts()):
        print(f"{name + ':':<18}{text}")


def arguments(parser):
    """Adds the options of `taper info`."""
    parser.add_argument("--json", action="store_true", help="as one JSON object, for programs")
    parser.add_argument(
        "--scaling", action="store_true", help="measure how this machine's operators scale with threads; takes seconds"
    )


def main(options):
    """`taper info`; the exit status."""
    from taper import _scaling

    measured = _scaling.measure() if options.scaling else None
    if not options.json:
        info()
        if measured:
            print(_scaling.table(measured))
        return 0
    import json

    print(json.dumps({**facts(), **({"scaling": measured} if measured else {})}, indent=2))
    return 0
