"""torchtext's face on Taper: vocabularies, tokenisers, and datasets of text from files on disk."""

__version__ = "0.18.0+taper"
_LATER = frozenset("data datasets functional transforms vocab".split())


def __getattr__(name):
    if name in _LATER:
        from importlib import import_module

        return import_module("taper.torchtext." + name)
    raise AttributeError(f"module 'torchtext' has no attribute '{name}'")


def disable_torchtext_deprecation_warning():
    """There is no such warning here."""
