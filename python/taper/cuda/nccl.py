"""torch.cuda.nccl: NCCL between the GPUs of one process is not used; between processes torch.distributed is."""


def is_available(tensors):
    return False


def version():
    """The version (major, minor, patch) of the NCCL or RCCL that torch.distributed uses."""
    from taper import _C

    number = _C._dist_nccl_version()
    if not number:
        raise RuntimeError(
            "NCCL (libnccl.so.2, or librccl.so.1 for AMD's GPUs) was not found, or there is no GPU for it"
        )
    return number // 10000, number // 100 % 100, number % 100
