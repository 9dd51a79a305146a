"""deepspeed.checkpointing: activations computed again in the backward."""

from taper.utils.checkpoint import checkpoint as _checkpoint


def configure(mpu_=None, **options):
    """Activations are kept by this process alone."""


def is_configured():
    return True


def checkpoint(function, *args):
    return _checkpoint(function, *args, use_reentrant=False)
