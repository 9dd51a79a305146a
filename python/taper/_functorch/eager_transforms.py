"""Where PyTorch keeps the transforms of torch.func."""

from taper.func import (
    _positions,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,  # noqa: F401
    vjp,
)


def _slice_argnums(args, argnums, as_tuple=True):
    """The arguments in those places."""
    places = _positions(argnums, len(args))
    if isinstance(argnums, int):
        return (args[places[0]],) if as_tuple else args[places[0]]
    return tuple(args[i] for i in places)
