"""torch.accelerator.random: the random states of whichever accelerator there is."""

from taper.accelerator import _needed, _room


def get_rng_state(device=None):
    return _room(_needed()).get_rng_state(device)


def get_rng_state_all():
    return _room(_needed()).get_rng_state_all()


def initial_seed():
    return _room(_needed()).initial_seed()
