"""What NVIDIA's management library tells of a GPU: how busy and how warm it is."""

from taper._gpu import nvml
from taper._gpu.devices import index_of, need


def _asked(device):
    need("cuda", "CUDA")
    return index_of("cuda", device)


def utilization(device=None):
    """The percentage of the last moment in which kernels ran."""
    return nvml.utilization(_asked(device))[0]


def memory_usage(device=None):
    """The percentage of the last moment in which memory was read or written."""
    return nvml.utilization(_asked(device))[1]


def temperature(device=None):
    """Degrees Celsius."""
    return nvml.number(_asked(device), "nvmlDeviceGetTemperature", 0)


def power_draw(device=None):
    """Milliwatts."""
    return nvml.number(_asked(device), "nvmlDeviceGetPowerUsage")


def clock_rate(device=None):
    """Megahertz of the multiprocessors."""
    return nvml.number(_asked(device), "nvmlDeviceGetClockInfo", 1)


def device_memory_used(device=None):
    """Bytes in use by all processes."""
    from taper.cuda import mem_get_info

    free, total = mem_get_info(_asked(device))
    return total - free
