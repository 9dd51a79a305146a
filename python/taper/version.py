"""torch.version: which PyTorch's behaviour this is, which Taper, and which CUDA or HIP the driver here has."""

from taper import _C

__version__ = f"2.15.0+taper{_C._version}"  # a local label: pip takes it for 2.15.0 where a package asks for that
taper = _C._version
debug = False
git_version = None


def __getattr__(name):
    """cuda, hip, xpu: what a device here speaks, or None. They are asked for when they are read, since asking opens the
    driver."""
    if name == "rocm":
        name = "hip"
    if name not in ("cuda", "hip", "xpu"):
        raise AttributeError(f"module 'torch.version' has no attribute '{name}'")
    kind = "xpu" if name == "xpu" else "cuda"
    if _C._gpu_backend(kind) != {"cuda": "CUDA", "hip": "HIP", "xpu": "OpenCL"}[name]:
        return None
    return _C._gpu_version(kind).split()[1].rstrip(",")
