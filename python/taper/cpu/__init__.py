"""torch.cpu: the CPU with the names that other devices have. It is always there, and nothing on it runs behind the
caller's back."""


class Stream:
    """Work in order; the CPU's is always done."""

    def __init__(self, priority=-1):
        pass

    def wait_stream(self, stream):
        pass

    def record_event(self, event=None):
        return event or Event()

    def wait_event(self, event):
        pass

    def synchronize(self):
        pass

    def query(self):
        return True


class Event:
    """A point in a stream."""

    def query(self):
        return True

    def record(self, stream=None):
        pass

    def synchronize(self):
        pass

    def wait(self, stream=None):
        pass


_default_cpu_stream = _current_stream = Stream()


class StreamContext:
    """Makes a stream the current one within a `with`."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        global _current_stream
        self.before = _current_stream
        if self.stream is not None:
            _current_stream = self.stream

    def __exit__(self, *error):
        global _current_stream
        _current_stream = self.before


def stream(stream):
    return StreamContext(stream)


def current_stream(device=None):
    return _current_stream


def is_available():
    return True


def is_initialized():
    return True


def synchronize(device=None):
    """Waits for the CPU: there is nothing to wait for."""


def device_count():
    return 1


def current_device():
    return "cpu"


def set_device(device):
    """Does nothing: there is one CPU."""


_FEATURES = {
    "avx2": "avx2",
    "avx512": "avx512f",
    "avx512_bf16": "avx512_bf16",
    "avx512_vnni": "avx512_vnni",
    "vnni": "avx512_vnni",
    "amx_tile": "amx_tile",
    "amx_fp16": "amx_fp16",
}  # as PyTorch and as Linux call what a processor has


def _has(flag):
    try:
        with open("/proc/cpuinfo") as file:
            return any(line.startswith("flags") and flag in line.split() for line in file)
    except OSError:
        return False


def __getattr__(name):
    if name.startswith("_is_") and name[4:].removesuffix("_supported") in _FEATURES:
        return lambda: _has(_FEATURES[name[4:].removesuffix("_supported")])
    if name == "amp":
        from importlib import import_module

        return import_module("taper.cpu.amp")
    raise AttributeError(f"module 'torch.cpu' has no attribute '{name}'")
