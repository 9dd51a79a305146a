"""The pieces that loaders are made of."""

from taper.utils.data._utils import collate, fetch, pin_memory, signal_handling, worker  # noqa: F401

python_exit_status = False  # is the interpreter about to end?
MP_STATUS_CHECK_INTERVAL = 5.0  # seconds until a dead worker is noticed, at most; it takes milliseconds


def __getattr__(name):
    if name == "HAS_NUMPY":
        from importlib.util import find_spec

        return find_spec("numpy") is not None
    raise AttributeError(f"module 'torch.utils.data._utils' has no attribute '{name}'")
