"""torch.nn._reduction: the words and numbers of a loss's reduction, which layers of other packages ask for."""

import warnings

_NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction):
    """The number that stands for a reduction in the operators of aten."""
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=2)
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


def legacy_get_string(size_average, reduce, emit_warning=True):
    """What size_average and reduce, the old way to say it, mean."""
    meant = "none" if reduce is False else "sum" if size_average is False else "mean"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{meant}' instead.", stacklevel=2
        )
    return meant


def legacy_get_enum(size_average, reduce, emit_warning=True):
    """The number of what size_average and reduce mean."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
