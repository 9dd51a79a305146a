"""torch.xpu: Intel's GPUs. This build has none: is_available() says so, what asks for a GPU raises PyTorch's error."""
from taper._absent import StreamContext, guard_class, no_index, refusals, refusing_class

globals().update(refusals("xpu", "XPU", """
    init current_device get_device_name get_device_properties get_device_capability synchronize current_stream set_stream can_device_access_peer mem_get_info
    get_rng_state set_rng_state initial_seed seed seed_all get_stream_from_external memory_summary"""))

Stream = refusing_class("Stream", "XPU", "Work on a GPU, in order.")
Event = refusing_class("Event", "XPU", "A point in a stream.")
device = guard_class("device", "XPU", "Makes a GPU the current one within a `with`; an index below zero does nothing.")
default_generators = ()


class device_of(device):
    """Makes the GPU of a tensor the current one; a tensor on the CPU does nothing."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.device.type == "xpu" else -1)


def stream(stream):
    return StreamContext(stream)


def is_available():
    """Can tensors live on an Intel GPU here?"""
    return False


def is_initialized():
    return False


def is_bf16_supported(including_emulation=True):
    return False


def device_count():
    return 0


def set_device(device):
    """Makes a GPU the current one; an index below zero does nothing."""
    if not no_index(device):
        current_device()  # noqa: F821  (raises)


def get_arch_list():
    return []


def empty_cache():
    """Gives kept memory back; there is none here."""


def manual_seed(seed):
    """Seeds the current GPU, if there is one."""


def manual_seed_all(seed):
    """Seeds all GPUs there are."""


def get_rng_state_all():
    return []


def set_rng_state_all(new_states):
    """One state per GPU: there are none."""


def memory_allocated(device=None):
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def memory_stats(device=None):
    return {}


def reset_peak_memory_stats(device=None):
    """Nothing to forget without a GPU."""
