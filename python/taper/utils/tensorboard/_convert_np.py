"""What users hand to the writer, as tensors without a history, or as numbers."""

from taper import _C


def as_tensor(x):
    """Tensors, NumPy's arrays, numbers and lists of them; anything else is refused as PyTorch does."""
    if isinstance(x, _C.Tensor):
        return x.detach()
    if (
        isinstance(x, (bool, int, float, complex, list, tuple))
        or hasattr(x, "__array_interface__")
        or hasattr(x, "__array__")
    ):
        return _C.as_tensor(x)
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")


def as_number(x):
    """One number, from a number or a text, or from a tensor or array that holds one."""
    if isinstance(x, (bool, int, float, str)):
        return float(x)
    if isinstance(x, (list, tuple)):
        raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")
    x = as_tensor(x)
    assert x.numel() == 1, (
        f"Tensor should contain one element (0 dimensions). Was given size: {x.numel()} and {x.dim()} dimensions."
    )
    return float(x.item())


def make_np(x):
    """A NumPy array of it; a number becomes one of one element."""
    import numpy

    if isinstance(x, numpy.ndarray):
        return x
    if numpy.isscalar(x):
        return numpy.array([x])
    if isinstance(x, _C.Tensor):
        return x.detach().cpu().numpy()
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")
