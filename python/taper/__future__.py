"""torch.__future__: how modules change their parameters when they are converted or loaded."""

_overwrite_module_params_on_conversion = False
_swap_module_params_on_conversion = False


def set_overwrite_module_params_on_conversion(value):
    """True: `module.to(...)` puts new parameters in place of the old ones, and does not change those."""
    global _overwrite_module_params_on_conversion
    _overwrite_module_params_on_conversion = value


def get_overwrite_module_params_on_conversion():
    return _overwrite_module_params_on_conversion


def set_swap_module_params_on_conversion(value):
    """True: `module.to(...)` and `load_state_dict` exchange the tensors behind the parameters
    (torch.utils.swap_tensors)."""
    global _swap_module_params_on_conversion
    _swap_module_params_on_conversion = value


def get_swap_module_params_on_conversion():
    return _swap_module_params_on_conversion
