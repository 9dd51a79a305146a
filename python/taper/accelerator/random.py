"""torch.accelerator.random: the random states of whichever accelerator there is."""

from taper.accelerator import _needed, _module_of


def get_rng_state(device=None):
    return _module_of(_needed()).get_rng_state(device)


def get_rng_state_all():
    return _module_of(_needed()).get_rng_state_all()


def initial_seed():
    return _module_of(_needed()).initial_seed()
