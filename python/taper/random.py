"""torch.random: the default generator."""
from taper._C import default_generator  # noqa: F401
from taper._toplevel import fork_rng, get_rng_state, initial_seed, manual_seed, seed, set_rng_state  # noqa: F401
