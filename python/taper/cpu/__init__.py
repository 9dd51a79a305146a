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


# What a processor may have, in PyTorch's words, and Linux's words where they are others.
_FEATURES = dict.fromkeys(
    """
    aes amx_bf16 amx_fp16 amx_int8 amx_tile avx avx2 avx512_bf16 avx512_bitalg avx512_fp16 avx512_vbmi2 avx512_vnni
    avx512_vp2intersect avx512_vpopcntdq avx_vnni bmi2 clflush clflushopt clwb f16c fma4 popcnt sse sse2 sse4_1 sse4_2
    sse4a ssse3""".split()
) | {
    "avx512_f": "avx512f",
    "avx512_bw": "avx512bw",
    "avx512_cd": "avx512cd",
    "avx512_dq": "avx512dq",
    "avx512_ifma": "avx512ifma",
    "avx512_vbmi": "avx512vbmi",
    "avx512_vl": "avx512vl",
    "bmi": "bmi1",
    "fma3": "fma",
    "lzcnt": "abm",
    "sha": "sha_ni",
    "sse3": "pni",
}
_SHORT = {"avx512": "avx512_f", "vnni": "avx512_vnni"}


def _described():
    """What Linux says of the first processor."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = (line.partition(":") for line in file.read().partition("\n\n")[0].splitlines())
            return {key.strip(): value.strip() for key, _, value in lines}
    except OSError:
        return {}


def get_capabilities():
    """What the processor is and has: a dict that cannot be written."""
    import os
    import platform
    from types import MappingProxyType

    described = _described()
    flags = described.get("flags", "").split()
    return MappingProxyType(
        {
            "architecture": platform.machine(),
            "cpu_name": described.get("model name", ""),
            "num_logical_cores": os.cpu_count(),
            **{feature: (flag or feature) in flags for feature, flag in _FEATURES.items()},
        }
    )


def __getattr__(name):
    feature = name[4:].removesuffix("_supported")
    feature = _SHORT.get(feature, feature)
    if name.startswith("_is_") and feature in _FEATURES:
        return lambda: get_capabilities()[feature]
    if name == "amp":
        from importlib import import_module

        return import_module("taper.cpu.amp")
    raise AttributeError(f"module 'torch.cpu' has no attribute '{name}'")
