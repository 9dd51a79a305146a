"""The schema that a function's annotations say (torch.library.infer_schema)."""

import collections.abc
import inspect
import typing

import taper

_WORDS = {
    taper.Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    taper.dtype: "ScalarType",
    taper.device: "Device",
}
_NUMBER = typing.Union[int, float, bool]
_LISTED = ("Tensor", "SymInt", "float", "bool", "Scalar")
_LISTS = (list, collections.abc.Sequence)
RETURNS = {
    taper.Tensor: "Tensor",
    typing.List[taper.Tensor]: "Tensor[]",
    list[taper.Tensor]: "Tensor[]",
    int: "SymInt",
    float: "float",
    bool: "bool",
    _NUMBER: "Scalar",
}


def _parts(annotation):
    """The type of a list or an Optional, and what stands in its brackets; (None, ()) for other types."""
    return typing.get_origin(annotation), typing.get_args(annotation)


def word(annotation, nested=False):
    """A type as schemas write it; None where they cannot."""
    if annotation in _WORDS:
        return _WORDS[annotation]
    origin, inside = _parts(annotation)
    if origin is typing.Union or type(annotation).__name__ == "UnionType":
        left = tuple(t for t in inside if t is not type(None))
        if set(left) == {int, float, bool}:
            made = "Scalar"
        else:
            made = word(left[0]) if len(left) == 1 else None
        return made if made is None or len(left) == len(inside) else made + "?"
    if origin in _LISTS and inside and not nested:
        made = word(inside[0], True)
        return f"{made}[]" if made is not None and (made in _LISTED or made == "Tensor?") else None
    return None


SUPPORTED = [t for t in (*_WORDS, _NUMBER)]


def infer_schema(prototype_function, /, *, mutates_args, op_name=None):
    """The schema of an operator from the annotations of the function that does its work."""
    signature = inspect.signature(prototype_function)

    def refuse(what):
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    def resolved(annotation):
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(
                annotation,
                getattr(inspect.unwrap(prototype_function), "__globals__", {}),
                {**vars(typing), "torch": taper},
            )
        except Exception as error:
            refuse(
                f"Unsupported type annotation {annotation}. It is not a type. ({error}). If you are using 'from "
                "__future__ import annotations', note that annotations are evaluated lazily as strings; make sure "
                "all types referenced in annotations are importable at module scope, not only inside a local "
                "function."
            )

    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated or the string "
            "'unknown'. "
        )
    parts, seen, starred = [], set(), False
    for at, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        if parameter.annotation is parameter.empty:
            refuse(f"Parameter {name} must have a type annotation.")
        annotation = resolved(parameter.annotation)
        text = word(annotation)
        if text is None:
            if _parts(annotation)[0] is tuple:
                inside = _parts(annotation)[1]
                example = (
                    f"For example, list[{inside[0].__name__ if inside and isinstance(inside[0], type) else '...'}]"
                )
                refuse(
                    f"Parameter {name} has unsupported type {annotation}. We do not support Tuple inputs in schema. "
                    f"As a workaround, please try to use List instead. {example}.\n\n"
                    f"The valid types are: {SUPPORTED}."
                )
            refuse(f"Parameter {name} has unsupported type {annotation}. The valid types are: {SUPPORTED}.")
        seen.add(name)
        if (
            mutates_args == "unknown"
            and text.startswith("Tensor")
            or mutates_args != "unknown"
            and name in mutates_args
        ):
            if not text.startswith("Tensor"):
                refuse(f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated")
            text = f"Tensor(a{at}!)" + text[len("Tensor") :]
        parts.append(f"{text} {name}{_default(name, parameter, refuse)}")
    if mutates_args != "unknown" and set(mutates_args) - seen:
        refuse(
            f"{set(mutates_args) - seen} in mutates_args were not found in the custom op's signature. "
            "mutates_args should contain the names of all args that the custom op "
            'mutates, or just the string "unknown" if you don\'t know.'
        )
    if signature.return_annotation is signature.empty:
        refuse("No return type annotation was provided. Please add one.")
    return f"{op_name or ''}({', '.join(parts)}) -> {_returned(resolved(signature.return_annotation), refuse)}"


def _default(name, parameter, refuse):
    value = parameter.default
    if value is parameter.empty:
        return ""
    if value is None or isinstance(value, (int, float, bool)):
        return f"={value}"
    if isinstance(value, str):
        return f'="{value}"'
    if isinstance(value, taper.device):
        return f'="{value}"'
    if isinstance(value, taper.dtype):
        return f"={str(value).rpartition('.')[2]}"
    refuse(
        f"Parameter {name} has an unsupported default value type {type(value)}. Please file an issue on GitHub so we "
        "can prioritize this."
    )


def _returned(annotation, refuse):
    if annotation is None or annotation is type(None):
        return "()"
    origin, inside = _parts(annotation)
    if origin is tuple:
        if not inside or inside == ((),):
            return "()"
        for one in inside:
            if one not in RETURNS:
                refuse(f"Return has unsupported type {annotation}. The valid types are: {RETURNS}.")
        return "(" + ", ".join(RETURNS[one] for one in inside) + ")"
    if annotation not in RETURNS:
        refuse(f"Return has unsupported type {annotation}. The valid types are: {RETURNS}.")
    return RETURNS[annotation]


def tuple_to_list(tuple_type):
    """tuple[int, int] as list[int]: what an error suggests instead of a tuple."""
    inside = typing.get_args(tuple_type)
    if tuple_type in (tuple, typing.Tuple) or not inside:
        return typing.List
    if len(inside) == 1 or len(inside) == 2 and inside[1] is Ellipsis:
        return typing.List[inside[0]]
    return typing.List[typing.Union[inside]]
