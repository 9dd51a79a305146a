"""Decorators of PyTorch's Python re-implementations of operators."""


def _maybe_remove_out_wrapper(function):
    """The function without the decorator that gives it an out= argument: operators here have none."""
    return function
