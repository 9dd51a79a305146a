"""torch.nn.utils._named_member_accessor: one tensor of a module in place of another."""

from taper._C import Tensor
from taper.nn.modules.module import Module

_MISSING = object()


def swap_tensor(module, name, tensor, allow_missing=False):
    """Puts a tensor where a parameter, buffer or attribute was, without registering it anew, and returns what was
    there."""
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if tensor is not _MISSING and not isinstance(tensor, Tensor) and tensor is not None:
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    if "." in name:
        raise KeyError('tensor name can\'t contain "."')
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')
    for registered in (module._parameters, module._buffers):
        if name in registered:
            before = registered[name]
            if tensor is _MISSING:
                del registered[name]
            else:
                registered[name] = tensor
            return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
    if before is not _MISSING and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is _MISSING:
        delattr(module, name)
    else:
        setattr(module, name, tensor)
    return before
