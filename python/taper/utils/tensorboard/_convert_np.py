"""What users hand to the writer, as tensors without a history, or as numbers."""
from taper import _C


def as_tensor(x):
    """Tensors, NumPy's arrays and numbers; anything else is refused as PyTorch does."""
    if isinstance(x, _C.Tensor):
        return x.detach()
    if isinstance(x, (bool, int, float, complex)) or hasattr(x, "__array_interface__"):
        return _C.as_tensor(x)
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")


def as_number(x):
    """One number, from a number or from a tensor or array that holds one."""
    if isinstance(x, (bool, int, float)):
        return float(x)
    return float(as_tensor(x).item())


def make_np(x):
    """A NumPy array of it."""
    return as_tensor(x).cpu().numpy()
