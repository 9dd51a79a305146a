"""torch.profiler.itt: marks for Intel's VTune, which this build does not have."""

__all__ = ["is_available", "mark", "range_push", "range_pop", "range"]


def is_available():
    return False


def _missing(*args, **kwargs):
    raise RuntimeError("ITT functions not installed. Are you sure you have a ITT build?")


mark = range_push = range_pop = range = _missing
