"""horovod, as far as scripts for PyTorch use it: horovod.torch, over torch.distributed's process groups; horovod.run
starts functions."""

__version__ = "0.28.1"


def run(func, args=(), kwargs=None, np=1, **options):
    """Runs a function in np processes of this machine: what it gives on each, by rank."""
    from taper.horovod._runner import run

    return run(func, args, kwargs, np)
