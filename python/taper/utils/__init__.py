"""torch.utils."""


def __getattr__(name):  # its modules are loaded at first use
    from importlib import import_module
    from importlib.util import find_spec
    if name.startswith("__") or find_spec("taper.utils." + name) is None:
        raise AttributeError(f"module 'torch.utils' has no attribute '{name}'")
    return import_module("taper.utils." + name)
