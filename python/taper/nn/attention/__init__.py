"""torch.nn.attention: which kernel attention takes. The CPU has one; the choice is kept, so that scripts that make it
run."""

from contextlib import contextmanager
from enum import IntEnum

__all__ = ["SDPBackend", "sdpa_kernel", "WARN_FOR_UNFUSED_KERNELS"]
WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(IntEnum):
    """The kernels of scaled_dot_product_attention, by PyTorch's names."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __repr__(self):
        return f"<SDPBackend.{self.name}: {self.value}>"

    def __str__(self):
        return f"SDPBackend.{self.name}"


@contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Allows these kernels alone within a `with`, or in a decorated function; torch.backends.cuda tells which are
    allowed."""
    from taper.backends import cuda

    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    allowed = set([backends] if isinstance(backends, SDPBackend) else backends)
    names = {
        SDPBackend.FLASH_ATTENTION: "flash",
        SDPBackend.EFFICIENT_ATTENTION: "mem_efficient",
        SDPBackend.MATH: "math",
        SDPBackend.CUDNN_ATTENTION: "cudnn",
    }
    with cuda.sdp_kernel(**{f"enable_{name}": kernel in allowed for kernel, name in names.items()}):
        yield
