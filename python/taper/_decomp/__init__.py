"""torch._decomp: operators written by means of others. Graphs here consist of operators that Taper runs itself, so the
tables are empty until a program registers entries of its own."""

__all__ = [
    "core_aten_decompositions",
    "decomposition_table",
    "get_decompositions",
    "register_decomposition",
    "remove_decompositions",
]

decomposition_table = {}


def register_decomposition(aten_op, registry=None, *, type="post_autograd", unsafe=False):
    """A decorator: enters the function for one operator or for several."""
    table = decomposition_table if registry is None else registry

    def enter(function):
        for operator in aten_op if isinstance(aten_op, (list, tuple)) else (aten_op,):
            table[operator] = function
        return function

    return enter


def get_decompositions(aten_ops, type="post_autograd"):
    """{operator: function} of those that have an entry."""
    return {operator: decomposition_table[operator] for operator in aten_ops if operator in decomposition_table}


def remove_decompositions(decompositions, aten_ops):
    for operator in aten_ops:
        decompositions.pop(operator, None)


def core_aten_decompositions():
    """What PyTorch would rewrite before a graph is exported: the entries of this process."""
    return dict(decomposition_table)
