"""torch._jit_internal: the decorators that packages on top of PyTorch take from there. Scripts run as Python, so each
gives back what it gets."""

from taper.jit import Final, export, ignore, is_scripting, unused  # noqa: F401


def _same(function):
    return function


_copy_to_script_wrapper = _overload = _overload_method = _same


def boolean_dispatch(arg_name, arg_index, default, if_true, if_false, module_name, func_name):
    """A function that is one of two, as a bool among its arguments says."""

    def chosen(*args, **kwargs):
        flag = kwargs[arg_name] if arg_name in kwargs else args[arg_index] if arg_index < len(args) else default
        return (if_true if flag else if_false)(*args, **kwargs)

    chosen.__name__, chosen.__module__ = func_name, module_name
    return chosen
