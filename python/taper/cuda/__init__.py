"""torch.cuda: NVIDIA's GPUs. This build has none; is_available() says so."""
from taper import _C
from taper._legacy import cuda_types as _types

globals().update(_types)  # torch.cuda.FloatTensor and its like


def is_available():
    """Can tensors live on a GPU here?"""
    return False


def is_initialized():
    return False


def is_bf16_supported(including_emulation=True):
    return False


def device_count():
    return 0


def _missing():
    raise RuntimeError("no CUDA device: Taper finds none on this machine (torch.cuda.is_available() is False)")


def init():
    _missing()


def current_device():
    _missing()


def set_device(device):
    _missing()


def get_device_name(device=None):
    _missing()


def get_device_properties(device=None):
    _missing()


def get_device_capability(device=None):
    _missing()


def synchronize(device=None):
    _missing()


def empty_cache():
    """Gives kept memory back; there is none here."""


def manual_seed(seed):
    """Seeds the current GPU, if there is one."""


def manual_seed_all(seed):
    """Seeds all GPUs there are."""


def memory_allocated(device=None):
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def reset_peak_memory_stats(device=None):
    """Nothing to forget without a GPU."""


def ipc_collect():
    """Nothing to collect without a GPU."""


def __getattr__(name):
    if name == "amp":
        from importlib import import_module
        return import_module("taper.cuda.amp")
    raise AttributeError(f"module 'torch.cuda' has no attribute '{name}'")
