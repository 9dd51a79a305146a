"""torch._library.custom_ops."""

from taper.library import CustomOpDef, custom_op  # noqa: F401
