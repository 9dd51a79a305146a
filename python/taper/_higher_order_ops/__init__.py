"""torch._higher_order_ops: control flow over tensors."""

from taper import while_loop  # noqa: F401
from taper._higher_order_ops.associative_scan import associative_scan  # noqa: F401
from taper._higher_order_ops.cond import cond  # noqa: F401

__all__ = ["associative_scan", "cond", "while_loop"]
