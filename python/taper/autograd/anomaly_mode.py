"""Anomaly mode: backward stops at NaN and tells where the forward call was."""

from taper import _C

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """Turns anomaly mode on or off, at once or for a block."""

    def __init__(self, mode, check_nan=True):
        self.prev, self.prev_check_nan = _C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled()
        _C.set_anomaly_enabled(mode, check_nan)

    def __enter__(self):
        pass

    def __exit__(self, *error):
        _C.set_anomaly_enabled(self.prev, self.prev_check_nan)


class detect_anomaly:
    """Anomaly mode for a block."""

    def __init__(self, check_nan=True):
        import warnings

        self.prev, self.prev_check_nan, self.check_nan = (
            _C.is_anomaly_enabled(),
            _C.is_anomaly_check_nan_enabled(),
            check_nan,
        )
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self):
        _C.set_anomaly_enabled(True, self.check_nan)

    def __exit__(self, *error):
        _C.set_anomaly_enabled(self.prev, self.prev_check_nan)
