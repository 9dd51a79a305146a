"""torch.__config__: what this build is and stands on."""

from taper import _C


def show():
    """A text: the version, the libraries and the threads."""
    lines = [
        f"Taper {_C._version}",
        *(f"  - {part}: {version or 'not found'}" for part, version, _ in _C._libraries()),
        "  - OpenMP",
        "  - C11, no C++ runtime",
    ]
    return "\n".join(lines) + "\n"


def _cxx_flags():
    """What the build was compiled with."""
    return "-std=gnu11 -O3"


def parallel_info():
    """A text: how many threads work on an operator, and on several."""
    return (
        f"at::get_num_threads() : {_C.get_num_threads()}\n"
        f"at::get_num_interop_threads() : {_C.get_num_interop_threads()}\n"
    )
