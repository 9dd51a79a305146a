"""torch.mtia: the module of a device that is not there."""

from taper._absent import device_count, empty_cache, is_available, manual_seed  # noqa: F401

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed"]
