"""torch._library.infer_schema."""

from taper._infer_schema import infer_schema, tuple_to_list  # noqa: F401
