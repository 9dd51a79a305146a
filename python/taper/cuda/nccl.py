"""torch.cuda.nccl: NCCL between the GPUs of one process is not used; between processes torch.distributed is."""


def is_available(tensors):
    return False


def version():
    """NCCL's version (major, minor, patch), where its library is found."""
    import ctypes
    number = ctypes.c_int()
    try:
        library = ctypes.CDLL("libnccl.so.2")
    except OSError:
        raise RuntimeError("NCCL (libnccl.so.2) was not found") from None
    library.ncclGetVersion(ctypes.byref(number))
    return number.value // 10000, number.value // 100 % 100, number.value % 100
