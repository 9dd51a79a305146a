"""torch.random: the default generator."""

from taper._C import Generator, default_generator  # noqa: F401
from taper._toplevel import fork_rng, get_rng_state, initial_seed, manual_seed, seed, set_rng_state  # noqa: F401


def _rebuild_generator(device, state):
    """A generator from its pickle."""
    return Generator(device).set_state(state)
