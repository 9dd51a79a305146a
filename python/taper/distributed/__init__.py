"""torch.distributed, as it is in a PyTorch that was built without it: scripts ask is_available() before they use the rest."""

__all__ = ["is_available", "is_initialized", "is_torchelastic_launched"]


def is_available():
    """Are process groups there? Not yet."""
    return False


def is_initialized():
    return False


def is_torchelastic_launched():
    return False
