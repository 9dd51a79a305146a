"""torch.utils._mode_utils."""

from taper._dispatch import NoHandlers as no_dispatch  # noqa: F401


def all_same_mode(modes):
    """Are they all one mode?"""
    return all(mode is modes[0] for mode in modes)
