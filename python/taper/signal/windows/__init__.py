"""torch.signal.windows: window functions, symmetric unless asked otherwise."""

from taper import _C
from taper.signal.windows import windows  # noqa: F401

globals().update({name: getattr(windows, name) for name in windows.__all__})
