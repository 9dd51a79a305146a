"""torch.functional: the functions of torch that PyTorch writes in Python."""

from taper import cdist  # noqa: F401
from taper._toplevel import (  # noqa: F401
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_shapes,
    broadcast_tensors,
    cartesian_prod,
    chain_matmul,
    einsum,
    istft,
    lu,
    meshgrid,
    norm,
    pca_lowrank,
    split,
    stft,
    svd_lowrank,
    tensordot,
    unique,
    unique_consecutive,
    unravel_index,
)


def __getattr__(name):
    if name == "F":  # PyTorch's file imports nn.functional under this name, and programs find it there
        from taper.nn import functional

        return functional
    raise AttributeError(f"module 'torch.functional' has no attribute '{name}'")
