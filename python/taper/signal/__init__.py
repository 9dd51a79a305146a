"""torch.signal: window functions."""

from taper.signal import windows  # noqa: F401
