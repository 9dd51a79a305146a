"""torch.signal.windows.windows: window functions, symmetric unless asked otherwise."""

from taper import _C

_functions = {
    name.removeprefix("signal_windows_"): function for name, function in _C._namespace("signal.windows").items()
}
__all__ = sorted(_functions)
globals().update(_functions)
