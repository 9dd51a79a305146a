"""torch._library.utils."""

from taper._ops import ops


def parse_namespace(qualname):
    namespace, found, name = qualname.partition("::")
    if not found or "::" in name:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The qualname '
            "passed to the torch.library APIs must consist of a "
            "namespace and a name, e.g. aten::sin"
        )
    return namespace, name


def lookup_op(qualname):
    """torch.ops's overload of a full name."""
    namespace, name = parse_namespace(qualname)
    base, _, overload = name.partition(".")
    return getattr(getattr(getattr(ops, namespace), base), overload or "default")


def is_functional_schema(schema):
    """Does an operator neither write arguments nor give views of them, and give something?"""
    from taper._schema import parse_schema

    if isinstance(schema, str):
        schema = parse_schema(schema)
    return (
        not schema.is_mutable
        and not any(a.alias_info is not None for a in [*schema.arguments, *schema.returns])
        and bool(schema.returns)
    )


def is_tensorlist_like_type(kind):
    return kind.list and kind.element.word == "Tensor"


def mutates_and_returns_first_arg(op):
    schema = op._schema
    return (
        bool(schema.arguments)
        and schema.arguments[0].is_write
        and len(schema.returns) == 1
        and not any(a.is_write for a in schema.arguments[1:])
    )
