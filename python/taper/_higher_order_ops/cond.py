"""torch._higher_order_ops.cond."""

from taper import cond

cond_op = cond
