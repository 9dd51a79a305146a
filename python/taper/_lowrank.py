"""torch._lowrank: the low-rank decompositions by the name of their file."""

from taper import pca_lowrank, svd_lowrank  # noqa: F401
