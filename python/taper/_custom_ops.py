"""torch._custom_ops: the older way to declare operators, on top of torch.library."""

from taper._custom_op.impl import (  # noqa: F401
    _destroy,
    custom_op_from,
    impl,
    impl_abstract,
    impl_backward,
    impl_save_for_backward,
)

custom_op = custom_op_from
