"""Schemas of operators: `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor` as an object, and which
values fit a type of theirs."""

from taper import _C

_NUMBERS = int, float, complex


class Type:
    """A schema's word for what an argument may be: Tensor, SymInt[], Tensor?."""

    def __init__(self, text, alias=None):
        self.text, self.alias = text, alias
        self.optional = text.endswith("?")
        inner = text[:-1] if self.optional else text
        self.length = None
        self.list = inner.endswith("]")
        if self.list:
            inner, _, length = inner.rpartition("[")
            self.length = int(length[:-1]) if length[:-1] else None
        self.element = Type(inner) if self.list else None
        self.word = inner

    def kind(self):
        return (
            "OptionalType" if self.optional else "ListType" if self.list else f"{_KINDS.get(self.word, self.word)}Type"
        )

    def annotation_str(self):
        return str(self)

    annotation_str = property(annotation_str)

    def getElementType(self):
        return Type(self.text[:-1]) if self.optional else self.element

    def isSubtypeOf(self, other):
        return self == other or isinstance(other, Type) and other.optional and other.getElementType() == self

    def __eq__(self, other):
        return isinstance(other, Type) and str(self) == str(other)

    def __hash__(self):
        return hash(str(self))

    def __str__(self):
        if self.optional:
            return f"Optional[{self.getElementType()}]"
        return f"List[{self.element}]" if self.list else _SHOWN.get(self.word, self.word)

    __repr__ = __str__


_KINDS = {"SymInt": "SymInt", "ScalarType": "Int", "Scalar": "Number", "str": "String", "Device": "DeviceObj"}
_SHOWN = {"SymInt": "int", "Scalar": "number", "ScalarType": "int", "Layout": "int", "MemoryFormat": "int"}


class AliasInfo:
    """(a!): which arguments and results may share memory, and whether it is written."""

    def __init__(self, text):
        self.is_write = "!" in text
        before, found, after = text.replace("!", "").partition("->")
        self.before_set = {w.strip() for w in before.split("|")}
        self.after_set = {w.strip() for w in after.split("|")} if found else set(self.before_set)

    def __str__(self):
        return "|".join(sorted(self.before_set)) + ("!" if self.is_write else "")


class Argument:
    """One argument or result of a schema."""

    def __init__(self, name, type, alias_info=None, default=None, has_default=False, kwarg_only=False):
        self.name, self.type, self.alias_info, self.kwarg_only = name, type, alias_info, kwarg_only
        self.default_value, self._has_default = default, has_default
        self.N = type.length
        self.is_write = alias_info is not None and alias_info.is_write
        self.is_out = False

    real_type = property(lambda self: self.type)

    def has_default_value(self):
        return self._has_default

    def __str__(self):
        word = self.type.text
        if self.alias_info is not None:
            word = word.replace("Tensor", f"Tensor({self.alias_info})", 1)
        default = f"={_show_default(self.default_value)}" if self._has_default else ""
        return f"{word} {self.name}{default}".rstrip()

    __repr__ = __str__


def _show_default(value):
    if isinstance(value, str):
        return f'"{value}"'
    return "[" + ", ".join(map(str, value)) + "]" if isinstance(value, (list, tuple)) else str(value)


class FunctionSchema:
    """What an operator takes and gives."""

    def __init__(self, name, overload_name, arguments, returns, is_vararg=False, is_varret=False):
        self.name, self.overload_name, self.arguments, self.returns = name, overload_name, arguments, returns
        self.is_vararg, self.is_varret = is_vararg, is_varret

    @property
    def is_mutable(self):
        return any(a.is_write for a in self.arguments)

    def __str__(self):
        parts, starred = [], False
        for argument in self.arguments:
            if argument.kwarg_only and not starred:
                parts.append("*")
                starred = True
            parts.append(str(argument))
        returns = [str(r) for r in self.returns]
        full = self.name + (f".{self.overload_name}" if self.overload_name else "")
        return f"{full}({', '.join(parts)}) -> {returns[0] if len(returns) == 1 else '(' + ', '.join(returns) + ')'}"

    __repr__ = __str__

    def __eq__(self, other):
        return isinstance(other, FunctionSchema) and str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


def _pieces(text):
    """Splits at the commas that stand in no brackets."""
    depth, start, parts = 0, 0, []
    for at, letter in enumerate(text):
        if letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def _default(text):
    known = {
        "None": None,
        "True": True,
        "False": False,
        "true": True,
        "false": False,
        "Mean": 1,
        "Sum": 2,
        "none": "none",
    }
    if text in known:
        return known[text]
    if text.startswith("["):
        return [_default(part) for part in _pieces(text[1:-1])]
    if text[:1] in "\"'":
        return text[1:-1]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return text


def _argument(text, kwarg_only=False):
    alias = None
    word = text.split("(", 1)
    if len(word) == 2 and word[0].startswith("Tensor") and " " not in word[0]:
        inside, _, rest = word[1].partition(")")
        alias, text = AliasInfo(inside), word[0] + rest
    kind, _, rest = text.partition(" ")
    name, has_default, default = rest.partition("=")
    return Argument(
        name.strip(),
        Type(kind),
        alias,
        _default(default.strip()) if has_default else None,
        bool(has_default),
        kwarg_only,
    )


_WORDS = frozenset(
    """Tensor int SymInt float SymFloat bool SymBool complex Scalar str ScalarType Device Layout MemoryFormat Generator
    Dimname Storage
    Stream DeviceIndex QScheme AnyEnumType Any NoneType Dict Future Capsule t""".split()
)


def check_schema(text):
    """The schema that the text of a new operator says; RuntimeError where a type of it is none, an argument has no name
    or a default no value."""
    schema = parse_schema(text)
    for argument in (*schema.arguments, *schema.returns):
        word = argument.type.word
        while word[-1:] in ("]", "?"):
            word = word.rpartition("[")[0] if word[-1] == "]" else word[:-1]
        if word.partition("(")[0] not in _WORDS and not word.startswith(("__torch__", "(")):
            raise RuntimeError(
                "\n"
                "unknown type specifier. Common valid schema types include Tensor, SymInt, int, float, bool, Scalar; "
                "for a full list, please see "
                "https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md#func :\n"
                + _marked(text, word)
            )
    for argument in schema.arguments:
        if not argument.name:
            raise RuntimeError("expected ident but found ')' here:\n" + _marked(text, argument.type.text))
        if isinstance(argument.default_value, str) and argument.type.word in (
            "int",
            "SymInt",
            "float",
            "Scalar",
            "complex",
        ):
            raise RuntimeError("\ninvalid numeric default value:\n" + _marked(text, argument.default_value))
    return schema


def _marked(text, part):
    """The text, and below it a mark under the part."""
    return f"{text}\n{' ' * max(text.rfind(part), 0)}{'~' * len(part)} <--- HERE\n"


def parse_schema(text):
    """The schema that a text says; RuntimeError where it says none."""
    head, opened, rest = text.partition("(")
    inside, arrow, result = rest.rpartition("->")
    if not opened or not arrow or not head.strip():
        raise RuntimeError(f"could not parse the schema {text!r}: expected name(Type argument, ...) -> Type")
    inside = inside.strip()
    if not inside.endswith(")"):
        raise RuntimeError(f"could not parse the schema {text!r}: expected ) before ->")
    name, _, overload = head.strip().partition(".")
    arguments, kwarg_only, vararg = [], False, False
    for piece in _pieces(inside[:-1]):
        if piece == "*":
            kwarg_only = True
        elif piece == "...":
            vararg = True
        else:
            arguments.append(_argument(piece, kwarg_only))
    result = result.strip()
    several = result.startswith("(") and result.endswith(")")
    returns = [_argument(piece) for piece in (_pieces(result[1:-1]) if several else [result])]
    for argument in arguments:
        argument.is_out = argument.kwarg_only and argument.is_write
    return FunctionSchema(name, overload, arguments, returns, vararg)


# ---- Which values fit ----
def _is_int(value):
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        or hasattr(value, "__index__")
        and not isinstance(value, (bool, _C.Tensor))
    )


_FITS = {
    "Tensor": lambda v: isinstance(v, _C.Tensor),
    "Scalar": lambda v: (
        isinstance(v, _NUMBERS) or _is_int(v) or hasattr(v, "__float__") and not isinstance(v, (_C.Tensor, str))
    ),
    "int": _is_int,
    "SymInt": _is_int,
    "float": lambda v: (
        isinstance(v, (int, float))
        and not isinstance(v, bool)
        or hasattr(v, "__float__")
        and not isinstance(v, (_C.Tensor, bool))
    ),
    "bool": lambda v: isinstance(v, bool),
    "complex": lambda v: isinstance(v, _NUMBERS),
    "str": lambda v: isinstance(v, str),
    "ScalarType": lambda v: isinstance(v, _C.dtype) or isinstance(v, type) and v in (int, float, bool, complex),
    "Device": lambda v: isinstance(v, (_C.device, str)) or _is_int(v),
    "Layout": lambda v: isinstance(v, _C.layout),
    "MemoryFormat": lambda v: isinstance(v, _C.memory_format),
    "Generator": lambda v: isinstance(v, _C.Generator),
}


builtin_type = type


def fits(type, value, number_for_tensor=False):
    """May the value be given where a schema has the type?"""
    if value is None:
        return type.optional
    if type.list:
        if isinstance(value, (list, tuple)):
            return all(fits(type.element, item) for item in value)
        return type.length is not None and fits(type.element, value)
    if type.word == "Tensor" and number_for_tensor and isinstance(value, _NUMBERS):
        return True
    check = _FITS.get(type.word)
    return check is None or check(value)


def misfit(name, schema, args, kwargs):
    """Why a call's arguments are not the ones that an operator's schema has, in PyTorch's words, or None where they
    are."""
    takes = [a for a in schema.arguments if not a.kwarg_only]
    if len(args) > len(takes):
        if len(takes) < len(schema.arguments):
            return (
                f"{name}() takes {len(takes)} positional argument(s) but {len(args)} was/were given.  Declaration: "
                f"{schema}"
            )
        return (
            f"{name}() expected at most {len(takes)} argument(s) but received {len(args)} argument(s). Declaration: "
            f"{schema}"
        )
    missing = object()
    left = len(kwargs)
    for position, argument in enumerate(schema.arguments):
        if position < len(args) and not argument.kwarg_only:
            value = args[position]
        else:
            value = kwargs.get(argument.name, missing)
            if value is missing:
                if argument.has_default_value():
                    continue
                return f"{name}() is missing value for argument '{argument.name}'. Declaration: {schema}"
            left -= 1
        if not _accepts(argument.type, value):
            return (
                f"{name}() Expected a value of type '{argument.type}' for argument '{argument.name}' but "
                f"instead found type '{builtin_type(value).__name__}'.\n"
                f"Position: {position}\nValue: {value!r}\nDeclaration: {schema}\n"
                + (
                    f"Cast error details: Unable to cast {value!r} to Tensor"
                    if argument.type.word == "Tensor" and not argument.type.list
                    else (
                        f"Cast error details: Unable to cast Python instance of type {builtin_type(value)} to C++ "
                        "type '?'"
                    )
                )
            )
    if left:
        known = {a.name for a in schema.arguments}
        for key in kwargs:
            if key not in known:
                return f"Unknown keyword argument '{key}' for operator '{name}'. Schema: {schema}"
        return (
            f"{name}() expected at most {len(schema.arguments)} argument(s) but received {len(args) + len(kwargs)} "
            f"argument(s). Declaration: {schema}"
        )
    return None


def _accepts(type, value):
    """fits, as registered operators take values: a tensor of one element where a number is asked, None for a tensor,
    bools for numbers."""
    if isinstance(value, _C.Tensor):
        return (
            type.word in ("Tensor", "Any", "t")
            and not type.list
            or type.word in ("Scalar", "int", "SymInt", "float", "bool", "complex")
            and not type.list
            and value.numel() == 1
            or type.list
            and type.word not in ("Tensor", "Tensor?")
            and value.dim() == 1
        )
    if value is None:
        return type.optional or type.word in ("Tensor", "NoneType", "Any", "Generator")
    if type.list:
        if isinstance(value, (list, tuple)):
            return all(_accepts(type.element, item) for item in value)
        return (
            type.length is not None
            and type.word in ("int", "float", "bool")
            and _accepts(type.element, value)
            or not isinstance(value, (int, float, str))
            and hasattr(value, "__iter__")
        )
    if isinstance(value, bool):
        return (
            type.word in ("int", "SymInt", "bool", "Scalar", "float", "complex", "ScalarType", "Any")
            or type.word not in _FITS
        )
    if type.word in ("ScalarType", "Layout", "MemoryFormat") and isinstance(value, int):
        return True
    if type.word == "Tensor":
        return isinstance(value, _C.Tensor) or hasattr(builtin_type(value), "__torch_function__")
    return fits(type, value)


def settle(type, value):
    """The value as handlers see it: lists are lists, a single size is a list of one, devices and dtypes are objects."""
    if value is None:
        return None
    if type.list:
        listed = [settle(type.element, item) for item in value] if isinstance(value, (list, tuple)) else [value]
        return listed * type.length if type.length and len(listed) == 1 else listed
    if type.word == "float":
        return float(value)
    if type.word == "Device" and not isinstance(value, _C.device):
        return _C.device(value)
    if type.word == "ScalarType" and isinstance(value, builtin_type):
        import taper

        return {float: taper.get_default_dtype(), int: taper.int64, bool: taper.bool, complex: taper.complex64}[value]
    return value
