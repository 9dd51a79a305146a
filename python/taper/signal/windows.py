"""torch.signal.windows: window functions, symmetric unless asked otherwise."""

from taper import _C

globals().update(
    {name.removeprefix("signal_windows_"): function for name, function in _C._namespace("signal.windows").items()}
)
