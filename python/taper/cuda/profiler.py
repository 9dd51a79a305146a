"""torch.cuda.profiler: tells NVIDIA's profilers when to look."""

from contextlib import contextmanager

from taper.cuda._driver import check_error, cudart

__all__ = ["start", "stop", "profile"]


def start():
    check_error(cudart().cudaProfilerStart())


def stop():
    check_error(cudart().cudaProfilerStop())


@contextmanager
def profile():
    """Looks at a with block alone."""
    start()
    try:
        yield
    finally:
        stop()
