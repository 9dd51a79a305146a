"""Names of torch.autograd that PyTorch's own tools use."""


def kineto_available():
    """Is PyTorch's tracing library there? Profiles are the library's own, and take every option with it or without."""
    return False


def is_view_replay_enabled():
    """Is the history of a view made again by calling its functions? It is made from the view's strides."""
    return False


def _record_function_with_args_enter(name, *args):
    from taper.autograd.profiler import record_function

    return record_function(name, ", ".join(map(str, args)) if args else None).__enter__()


def _record_function_with_args_exit(handle):
    handle.__exit__(None, None, None)


def _calculate_shape(output, grad, is_grads_batched):
    """The shapes of an output and of its gradient, for a message: of nested tensors those of their parts."""

    def shape(t):
        return t._nested_tensor_size() if t.is_nested else t.shape

    return shape(output), shape(grad)[1:] if is_grads_batched and not grad.is_nested else shape(grad)
