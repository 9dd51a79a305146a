"""torch.utils._python_dispatch: what is asked about subclasses of Tensor."""


def is_traceable_wrapper_subclass(t):
    """Is it an instance of a subclass that says which tensors it consists of?"""
    from taper._C import Tensor
    return isinstance(t, Tensor) and type(t) is not Tensor and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t):
    from taper._C import Tensor
    return issubclass(t, Tensor) and t is not Tensor and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
