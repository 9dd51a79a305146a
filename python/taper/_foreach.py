"""torch._foreach_NAME: an operator over lists of tensors, in step. An argument that is a list goes along with the tensors; anything else serves for all."""
from taper import _C
from taper._C import Tensor

_OTHER_NAME = {"norm": "linalg_vector_norm"}  # the operator behind the name, where it is another one


def _rows(name, values, keywords):
    lists = [v for v in (*values, *keywords.values()) if isinstance(v, (list, tuple))]
    if not lists or not lists[0]:
        raise RuntimeError(f"_foreach_{name}(): Tensor list must have at least one tensor.")
    if any(len(v) != len(lists[0]) for v in lists):
        raise RuntimeError(f"_foreach_{name}(): Tensor lists must have the same number of tensors, got {' and '.join(str(len(v)) for v in lists)}")
    for i in range(len(lists[0])):
        def at(v):
            return v[i] if isinstance(v, (list, tuple)) else v
        yield [at(v) for v in values], {k: at(v) for k, v in keywords.items()}


def make(name):
    """The function _foreach_NAME."""
    operator = _C._functions[_OTHER_NAME.get(name, name)] if name not in ("copy_", "zero_") else getattr(Tensor, name)

    def foreach(*values, **keywords):
        results = [operator(*row, **named) for row, named in _rows(name, values, keywords)]
        return values[0] if name.endswith("_") else tuple(results)
    foreach.__name__ = foreach.__qualname__ = "_foreach_" + name
    return foreach
