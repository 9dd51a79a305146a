"""torch.return_types: the named tuples of operators with several results, by the operator's name."""

from taper import _C


def __getattr__(name):
    result = _C._return_type(name)
    if result is None:
        raise AttributeError(f"module 'torch.return_types' has no attribute '{name}'")
    return result
