"""torch._dynamo.utils: what packages ask the compiler about itself."""

from collections import Counter, defaultdict
from contextlib import nullcontext

counters = defaultdict(Counter)  # of what PyTorch's compiler did: nothing is counted
disable_cache_limit = nullcontext  # no function is given up for having been compiled often


def is_compile_supported(device_type):
    """Does torch.compile take tensors of this kind of device?"""
    from taper import _C

    kind = device_type.partition(":")[0]
    return kind == "cpu" or kind in ("cuda", "xpu") and _C._gpu_count(kind) > 0
