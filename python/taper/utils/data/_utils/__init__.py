"""The pieces that loaders are made of."""
from taper.utils.data._utils import collate, fetch, pin_memory, worker  # noqa: F401

MP_STATUS_CHECK_INTERVAL = 5.0  # seconds until a dead worker is noticed, at most; it takes milliseconds
