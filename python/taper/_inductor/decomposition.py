"""torch._inductor.decomposition: where packages file what their operators are made of."""

from taper._decomp import decomposition_table as decompositions
from taper._decomp import register_decomposition

__all__ = ["decompositions", "register_decomposition"]
