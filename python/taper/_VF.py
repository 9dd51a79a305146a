"""torch._VF: the operators as functions (`_VF.lstm`), also those whose signature in torch is wider."""

from taper import _C


def __getattr__(name):
    if name in _C._functions:
        return _C._functions[name]
    import taper

    try:
        return getattr(taper, name)
    except AttributeError:
        raise AttributeError(f"module 'torch._VF' has no attribute '{name}'") from None
