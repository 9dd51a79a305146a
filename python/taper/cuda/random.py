"""torch.cuda.random: the random numbers of GPUs."""
from taper.cuda import (get_rng_state, get_rng_state_all, initial_seed, manual_seed, manual_seed_all, seed, seed_all, set_rng_state,
                        set_rng_state_all)  # noqa: F401
