"""Parameters as one vector, and back."""

from taper._C import Tensor
from taper._C import _functions as _op


def _one_device(place, parameter):
    if place is not None and parameter.device != place:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return parameter.device


def parameters_to_vector(parameters):
    """All elements of the parameters, one after the other."""
    parts, place = [], None
    for parameter in parameters:
        place = _one_device(place, parameter)
        parts.append(parameter.view(-1))
    return _op["cat"](parts)


def vector_to_parameters(vec, parameters):
    """Gives each parameter its part of the vector, by its .data."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    place, at = None, 0
    for parameter in parameters:
        place = _one_device(place, parameter)
        count = parameter.numel()
        parameter.data = vec[at : at + count].view_as(parameter).data
        at += count
