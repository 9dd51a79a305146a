"""torch.distributed.rpc.functions."""


def async_execution(fn):
    """Marks a function that returns a Future: the caller is answered when that has its value."""
    from functools import wraps

    @wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    wrapper._wrapped_async_rpc_function = fn
    return wrapper
