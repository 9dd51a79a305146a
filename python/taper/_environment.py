"""The environment variables that Taper reads, and what their values may be (docs/environment.md describes them).

A value that the library cannot read leaves things as they are without the variable, and the library prints nothing. So
the first `import taper` of a program warns of it, and `taper doctor` lists it.
"""

import os


def _words(*allowed):
    return " or ".join(allowed), lambda value: value in allowed


def _positive(value):
    try:
        return 0 < float(value) < float("inf")
    except ValueError:
        return False


_FLAG = _words("0", "1")
_ANY = "", lambda value: True  # or read by code that fails loudly
_SECONDS = "a number of seconds above 0", _positive
_BYTES = "a number of bytes", lambda value: _positive(value) and float(value) >= 1
_COUNT = "a whole number, 1 or more", lambda value: value.strip().removeprefix("+").isdecimal() and int(value) > 0
_FOLDER = "a folder that is there", os.path.isdir


def _is_library(value):
    """Names a library by a path, or by a name that the loader looks for."""
    return os.path.isfile(value) if "/" in value else ".so" in value


def _are_interfaces(value):
    from socket import if_nameindex

    return set(value.split(",")) <= {name for _, name in if_nameindex()}


# name: (what is expected, whether a value can be read)
VARIABLES = {
    "TAPER_ALLOC": _words("plain"),
    "TAPER_CACHE": _ANY,
    "TAPER_CLBLAST": _FLAG,
    "TAPER_CUDA_PATH": _ANY,
    "TAPER_DEBUG": _ANY,
    "TAPER_DIST_CHECK": _FLAG,
    "TAPER_ELASTIC_DIR": _ANY,
    "TAPER_GLOO": _FLAG,
    "TAPER_GPU_GRAPHS": _FLAG,
    "TAPER_GRACE": _SECONDS,
    "TAPER_HOST_DETOURS": _words("error"),
    "TAPER_ISA": _words("base", "avx2", "avx512", "avx512_bf16"),
    "TAPER_JOB_SECRET": _ANY,
    "TAPER_JOB_SECRET_FILE": _ANY,
    "TAPER_KERNELS": _FOLDER,
    "TAPER_LAUNCHER": _ANY,
    "TAPER_LEAKS": _ANY,
    "TAPER_LISTEN": _ANY,
    "TAPER_MPI": (
        "openmpi, mpich, or a file that is there",
        lambda value: value in ("openmpi", "mpich") or ("/" in value and os.path.isfile(value)),
    ),
    "TAPER_NCCL_LIBRARY": ("a library's file", _is_library),
    "TAPER_ONEDNN": ("0, 1 or a library's file", lambda value: value in ("0", "1") or _is_library(value)),
    "TAPER_PLUGINS": _FOLDER,
    "TAPER_RUN": _ANY,
    "TAPER_SHARED": _FOLDER,
    "TAPER_SOCKET_IFNAME": ("interfaces of this machine, separated by commas", _are_interfaces),
    "TAPER_STALL": _SECONDS,
    "TAPER_STORE_BYTES": _BYTES,
    "TAPER_STORE_VALUE_BYTES": _BYTES,
    "TAPER_WINOGRAD": _FLAG,
    "TAPER_XPU_DEVICES": _words("all", "cpu", "gpu"),
    "TAPER_XPU_TILES": _COUNT,
}
# OpenMP's runtime warns of these itself; the doctor looks at them too.
_NAMES = "threads", "cores", "sockets", "ll_caches", "numa_domains"
_BINDINGS = "true", "false", "master", "primary", "close", "spread"
OPENMP = {
    "OMP_NUM_THREADS": (
        "a whole number of threads, 1 or more",
        lambda value: _COUNT[1](value.partition(",")[0]),  # "8,2": 2 for nested loops
    ),
    "OMP_PROC_BIND": (
        " or ".join(_BINDINGS),
        lambda value: all(word.strip().lower() in _BINDINGS for word in value.split(",")),
    ),
    "OMP_PLACES": (
        " or ".join(_NAMES) + ", or sets such as {0:4},{4:4}",
        lambda value: value.strip().lower().partition("(")[0] in _NAMES or "{" in value,
    ),
}


def unread(environment, variables):
    """(name, value, what was expected) of each variable that is set to what cannot be read."""
    for name, (expected, readable) in variables.items():
        value = environment.get(name)
        if value and not readable(value):
            yield name, value, expected


def misspelt(environment):
    """(name, the variable that it resembles) of each that no part of Taper reads."""
    from difflib import get_close_matches

    for name in sorted(environment):
        if name.startswith("TAPER_") and name not in VARIABLES:
            for near in get_close_matches(name, VARIABLES, 1, 0.88):
                yield name, near


def warn():
    """Warns of what cannot be read: one process of a job does, and none that another process of Taper started."""
    found = list(unread(os.environ, VARIABLES))
    if not found or "TAPER_LAUNCHER" in os.environ:
        return
    from multiprocessing import parent_process
    from warnings import warn

    from taper import _C

    if parent_process() is None and _C._dist_place()[1] <= 0:
        for name, value, expected in found:
            warn(f"{name}={value!r} cannot be read: expected {expected}", stacklevel=3)
