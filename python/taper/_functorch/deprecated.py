"""functorch's functions under their old names: each says where it is now."""

from warnings import warn

import taper.func as _func
from taper._functorch import make_functional as _modules

__all__ = [
    "vmap",
    "grad",
    "grad_and_value",
    "vjp",
    "jvp",
    "jacrev",
    "jacfwd",
    "hessian",
    "functionalize",
    "make_functional",
    "make_functional_with_buffers",
    "combine_state_for_ensemble",
]


def _moved(function, name, instead):
    def moved(*args, **kwargs):
        warn(
            f"We've integrated functorch into PyTorch. As the final step of the integration, `functorch.{name}` is "
            "deprecated as of PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. Please use "
            f"`{instead}` instead; see the PyTorch 2.0 release notes and/or the `torch.func` migration guide for more "
            "details https://pytorch.org/docs/main/func.migrating.html",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    moved.__name__ = moved.__qualname__ = name
    moved.__doc__ = function.__doc__
    return moved


vmap = _moved(_func.vmap, "vmap", "torch.vmap")
for _name in ("grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "functionalize"):
    globals()[_name] = _moved(getattr(_func, _name), _name, "torch.func." + _name)
make_functional = _moved(_modules.make_functional, "make_functional", "torch.func.functional_call")
make_functional_with_buffers = _moved(
    _modules.make_functional_with_buffers, "make_functional_with_buffers", "torch.func.functional_call"
)
combine_state_for_ensemble = _moved(
    _modules.combine_state_for_ensemble, "combine_state_for_ensemble", "torch.func.stack_module_state"
)
