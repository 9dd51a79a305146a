"""torch._foreach_NAME: an operator over lists of tensors, in step. An argument that is a list goes along with the
tensors; anything else serves for all."""

from taper import _C
from taper._C import Tensor

_OTHER_NAME = {"norm": "linalg_vector_norm"}  # the operator behind the name, where it is another one
_WITH_NUMBERS = {"minimum": "clamp_max", "maximum": "clamp_min"}  # and where the other argument is a number


def _check_lists(name, lists):
    if not lists or not lists[0]:
        raise RuntimeError(f"_foreach_{name}(): Tensor list must have at least one tensor.")
    first = lists[0] if isinstance(lists[0][0], Tensor) or len(lists) == 1 else lists[1]
    for other in lists:
        if len(other) != len(first):
            if not all(isinstance(item, Tensor) for item in other) or not other:
                raise RuntimeError(f"_foreach_{name}(): Tensor list must have same number of elements as scalar list.")
            raise RuntimeError(
                f"_foreach_{name}(): Tensor lists must have the same number of tensors, got "
                f"{' and '.join(str(len(v)) for v in lists)}"
            )


def _rows(name, values, keywords):
    lists = [v for v in (*values, *keywords.values()) if isinstance(v, (list, tuple))]
    _check_lists(name, lists)
    for i in range(len(lists[0])):

        def at(v):
            return v[i] if isinstance(v, (list, tuple)) else v

        yield [at(v) for v in values], {k: at(v) for k, v in keywords.items()}


def _spread_scalars(name, values):
    """addcmul and addcdiv take their factors in one tensor, too."""
    if len(values) == 4 and isinstance(values[3], Tensor):
        if values[3].dim() != 1 or values[3].numel() != len(values[0]):
            raise RuntimeError(
                f"Expected length of scalars to match input of length {len(values[0])} but got {values[3].numel()} "
                "instead."
            )
        return (*values[:3], values[3].tolist())
    return values


def _powsum(tensor, ord, dtype=None):
    """The sum of sizes to a power: the norm without its root."""
    return tensor.abs().pow(ord).sum(dtype=dtype)


def _operator(name):
    if name == "powsum":
        return _powsum
    return getattr(Tensor, name) if name in ("copy_", "zero_") else _C._functions[_OTHER_NAME.get(name, name)]


def make(name):
    """The function _foreach_NAME."""
    operator, plain = _operator(name), name.removesuffix("_")
    with_number = _C._functions[_WITH_NUMBERS[plain] + name[len(plain) :]] if plain in _WITH_NUMBERS else operator

    def foreach(*values, **keywords):
        if plain in ("addcmul", "addcdiv"):
            values = _spread_scalars(name, values)
        if plain in ("add", "mul", "div") and len(values) > 1 and isinstance(values[1], Tensor) and values[1].dim():
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {values[1].dim()} dimensions and {values[1].numel()} "
                "elements."
            )
        if name == "max" and any(not tensor.numel() for tensor in values[0]):
            raise RuntimeError(
                "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined."
            )
        if (
            name == "norm"
            and (values[1] if len(values) > 1 else keywords.get("ord")) == float("inf")
            and any(not tensor.numel() for tensor in values[0])
        ):
            raise RuntimeError(
                "_foreach_norm cannot compute the infinity norm on an empty tensor because the operation does not "
                "have an identity"
            )
        results = [
            (operator if len(row) < 2 or isinstance(row[1], Tensor) else with_number)(*row, **named)
            for row, named in _rows(name, values, keywords)
        ]
        return values[0] if name.endswith("_") else tuple(results)

    foreach.__name__ = foreach.__qualname__ = "_foreach_" + name
    return foreach
