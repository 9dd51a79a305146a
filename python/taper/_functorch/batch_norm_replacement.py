"""Where PyTorch keeps what takes running statistics away."""

from taper.func import replace_all_batch_norm_modules_  # noqa: F401


def batch_norm_without_running_stats(module):
    """One module, not those below it."""
    if "running_mean" in module._buffers and "num_batches_tracked" in module._buffers and module.track_running_stats:
        module.running_mean = module.running_var = module.num_batches_tracked = None
        module.track_running_stats = False
