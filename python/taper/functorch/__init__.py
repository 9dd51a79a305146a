"""functorch: torch.func under the names it had as a package of its own."""

from taper import __version__  # noqa: F401
from taper._functorch.deprecated import (
    combine_state_for_ensemble,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,  # noqa: F401
    jvp,
    make_functional,
    make_functional_with_buffers,
    vjp,
    vmap,
)
from taper._functorch.make_functional import FunctionalModule, FunctionalModuleWithBuffers  # noqa: F401
