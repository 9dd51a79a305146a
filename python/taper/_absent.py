"""Rooms of devices that are not there: names that scripts use, which say so when called; what asks for nothing answers with nothing."""


def refusals(room, word, names):
    """Functions of torch.ROOM that need the device: {name: function}."""
    def refusal(name):
        def function(*args, **kwargs):
            raise AssertionError(f"Torch not compiled with {word} enabled")
        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"Needs a device: torch.{room}.is_available() is False."
        return function
    return {name: refusal(name) for name in names.split()}


def refusing_class(name, word, doc):
    """A class that cannot be made without the device; isinstance and annotations work."""
    def __init__(self, *args, **kwargs):
        raise AssertionError(f"Torch not compiled with {word} enabled")
    return type(name, (), {"__init__": __init__, "__doc__": doc})


def no_index(device):
    """Does this name no device at all: None, a negative index or the CPU?"""
    from taper._C import device as device_type
    if isinstance(device, str):
        device = device_type(device)
    return device is None or (isinstance(device, int) and device < 0) or getattr(device, "type", None) == "cpu"


def guard_class(name, word, doc):
    """A `with` that makes a device current: nothing happens without one to make."""
    def __init__(self, device=None):
        self.idx, self.prev_idx = (-1 if no_index(device) else device), -1

    def __enter__(self):
        if self.idx != -1:
            raise AssertionError(f"Torch not compiled with {word} enabled")

    def __exit__(self, *error):
        return False
    return type(name, (), {"__init__": __init__, "__enter__": __enter__, "__exit__": __exit__, "__doc__": doc})


class StreamContext:
    """Makes a stream the current one; None leaves things as they are."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        return None

    def __exit__(self, *error):
        return False


# ---- What asks for no device, and is answered without one ----
def is_available():
    """Can tensors live on such a device here?"""
    return False


def is_initialized():
    return False


def is_bf16_supported(including_emulation=True):
    return False


def device_count():
    return 0


def get_arch_list():
    return []


def empty_cache():
    """Gives kept memory back; there is none here."""


def manual_seed(seed):
    """Seeds the current device, if there is one."""


def manual_seed_all(seed):
    """Seeds all devices there are."""


def get_rng_state_all():
    return []


def set_rng_state_all(new_states):
    """One state per device: there are none."""


def memory_allocated(device=None):
    return 0


def memory_stats(device=None):
    return {}


def reset_peak_memory_stats(device=None):
    """Nothing to forget without a device."""


def room(name, names):
    """For a room's __getattr__: its modules, loaded when they are asked for."""
    def __getattr__(attribute):
        if attribute in names:
            from importlib import import_module
            return import_module(f"taper.{name}.{attribute}")
        raise AttributeError(f"module 'torch.{name}' has no attribute '{attribute}'")
    return __getattr__
