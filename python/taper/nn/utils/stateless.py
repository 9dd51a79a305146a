"""torch.nn.utils.stateless: the old place of functional_call."""


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """module(*args, **kwargs) with these tensors in the places of its parameters and buffers."""
    from warnings import warn
    from taper import func

    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return func.functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def _reparametrize_module(module, parameters_and_buffers, tie_weights=False, strict=False, stack_weights=False):
    """A context in which the module has these tensors in the places of its parameters and buffers."""
    from taper.func import reparametrized

    return reparametrized(module, parameters_and_buffers, tie_weights, strict)
