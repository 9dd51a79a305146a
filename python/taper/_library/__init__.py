"""torch._library: what torch.library is made of."""


def __getattr__(name):  # its modules are loaded at first use
    from importlib import import_module

    if name in ("custom_ops", "infer_schema", "utils"):
        return import_module("taper._library." + name)
    raise AttributeError(f"module 'torch._library' has no attribute '{name}'")
