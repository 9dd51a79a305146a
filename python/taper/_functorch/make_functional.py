"""Modules as functions of their parameters, in functorch's way: parameters go in as tuples, in the order of
named_parameters()."""

from copy import deepcopy

from taper import stack
from taper.func import functional_call
from taper.nn import Module

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "make_functional",
    "make_functional_with_buffers",
    "combine_state_for_ensemble",
]


def _taken(tensors, disable_autograd_tracking):
    """The values as a tuple, off the tape where asked for."""
    values = tuple(tensors)
    if disable_autograd_tracking:
        for value in values:
            value.requires_grad_(False)
    return values


class FunctionalModuleWithBuffers(Module):
    """fmodel(params, buffers, *args)."""

    def __init__(self, stateless_model, param_names, buffer_names):
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = param_names, buffer_names

    @staticmethod
    def _create_from(model, disable_autograd_tracking=False):
        copy = deepcopy(model)
        params, buffers = dict(copy.named_parameters()), dict(copy.named_buffers())
        made = FunctionalModuleWithBuffers(copy, tuple(params), tuple(buffers))
        return made, _taken(params.values(), disable_autograd_tracking), tuple(buffers.values())

    def forward(self, params, buffers, *args, **kwargs):
        given = {**dict(zip(self.param_names, params)), **dict(zip(self.buffer_names, buffers))}
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModule(Module):
    """fmodel(params, *args)."""

    def __init__(self, stateless_model, param_names):
        super().__init__()
        self.stateless_model, self.param_names = stateless_model, param_names

    @staticmethod
    def _create_from(model, disable_autograd_tracking=False):
        copy = deepcopy(model)
        params = dict(copy.named_parameters())
        return FunctionalModule(copy, tuple(params)), _taken(params.values(), disable_autograd_tracking)

    def forward(self, params, *args, **kwargs):
        return functional_call(self.stateless_model, dict(zip(self.param_names, params)), args, kwargs)


def make_functional(model, disable_autograd_tracking=False):
    """The model as a function of its parameters, and copies of them."""
    if next(model.buffers(), None) is not None:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    return FunctionalModule._create_from(model, disable_autograd_tracking)


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """The model as a function of its parameters and buffers, and copies of both."""
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


def _stacked(rows):
    return tuple(stack(column).detach() for column in zip(*rows))


def combine_state_for_ensemble(models):
    """One function for like models, and their parameters and buffers stacked, for vmap."""
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    functions, params, buffers = zip(*map(make_functional_with_buffers, models))
    return functions[0], _stacked(params), _stacked(buffers)
