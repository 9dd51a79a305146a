"""torch.utils._triton: Triton's kernels are not used here."""


def has_triton(*, include_cpu=False):
    return False


has_triton_package = has_triton_tma = has_triton_tma_device = has_triton
