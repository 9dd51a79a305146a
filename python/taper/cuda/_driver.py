"""The few calls of CUDA's own that scripts make themselves, through the driver (or HIP's library) by ctypes."""

import ctypes

from taper import _C
from taper._gpu.devices import need

_library = None


def _driver():
    """(the library, the prefix of its names)"""
    global _library
    need("cuda", "CUDA")
    hip = _C._gpu_backend("cuda") == "HIP"
    if _library is None:
        for name in ("libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.5") if hip else ("libcuda.so.1",):
            try:
                _library = ctypes.CDLL(name)
                break
            except OSError:
                continue
        else:
            raise RuntimeError("the driver's library was not found")
    return _library, "hip" if hip else "cu"


def can_access_peer(here, there):
    """Can one GPU read the other's memory?"""
    library, prefix = _driver()
    answer = ctypes.c_int()
    devices = [ctypes.c_int(here), ctypes.c_int(there)]
    if prefix == "cu":
        for device, index in zip(devices, (here, there)):
            check_error(library.cuDeviceGet(ctypes.byref(device), index))
    check_error(getattr(library, prefix + "DeviceCanAccessPeer")(ctypes.byref(answer), *devices))
    return bool(answer.value)


class cudaStatus:
    """The codes that PyTorch names."""

    SUCCESS, ERROR_NOT_READY = 0, 34


def check_error(res):
    """Raises for a code that is not success."""
    from taper.cuda import CudaError

    if int(res) != 0:
        raise CudaError(res)


class _Runtime:
    """torch.cuda.cudart(): profiler marks and memory, by the runtime's names."""

    cudaError = cudaStatus

    def cudaProfilerStart(self):
        library, prefix = _driver()
        return getattr(library, prefix + "ProfilerStart")()

    def cudaProfilerStop(self):
        library, prefix = _driver()
        return getattr(library, prefix + "ProfilerStop")()

    def cudaMemGetInfo(self, device):
        return _C._gpu_memory_info("cuda", device)

    def cudaGetErrorString(self, code):
        return "no error" if code == 0 else f"CUDA error {code}"


def cudart():
    """CUDA's runtime interface, as far as scripts use it."""
    need("cuda", "CUDA")
    return _Runtime()
