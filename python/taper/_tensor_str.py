"""How tensors print: torch.set_printoptions and its kin. The printing itself is the library's."""

from taper import _C

_profiles = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, 2**31 - 1, 3, 80)}
_names = "precision", "threshold", "edgeitems", "linewidth", "sci_mode"
_sci_modes = {-1: None, 0: False, 1: True}


def get_printoptions():
    """The options as a dict."""
    options = dict(zip(_names, _C._get_print_options()))
    options["sci_mode"] = _sci_modes[options["sci_mode"]]
    return options


def _whole(value):
    return 2**31 - 1 if value == float("inf") else min(int(value), 2**31 - 1)


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """Sets how tensors print; what is not given stays. A profile ("default", "short", "full") comes first."""
    now = list(_C._get_print_options())
    if profile is not None:
        now[:4] = _profiles.get(profile, now[:4])
    for i, value in enumerate((precision, threshold, edgeitems, linewidth)):
        if value is not None:
            now[i] = _whole(value)
    now[4] = -1 if sci_mode is None else int(bool(sci_mode))
    _C._set_print_options(*now)


class printoptions:
    """Other options inside a with block."""

    def __init__(self, **options):
        self._options = options

    def __enter__(self):
        self._before = get_printoptions()
        set_printoptions(**self._options)

    def __exit__(self, *error):
        set_printoptions(**self._before)


# ---- What packages that print tensors of their own call ----
class _PrintOptions:
    """The options as attributes, read and written."""

    def __getattr__(self, name):
        try:
            return get_printoptions()[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        set_printoptions(**{**get_printoptions(), name: value})

    def __repr__(self):
        return f"__PrinterOptions({', '.join(f'{name}={value}' for name, value in get_printoptions().items())})"


PRINT_OPTS = _PrintOptions()


def _elements(tensor):
    """How a tensor prints, from its first bracket to the last."""
    text = repr(tensor.detach().as_subclass(_C.Tensor))
    depth, end = 0, 0
    for end, letter in enumerate(text[len("tensor(") :], len("tensor(") + 1):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if depth == 0 and letter in "],)":
            break
    return text[len("tensor(") : end if text[end - 1] == "]" else end - 1]


def _tensor_str(self, indent):
    """The elements; lines after the first begin with `indent` spaces."""
    return _elements(self).replace("\n" + " " * len("tensor("), "\n" + " " * indent)


def _add_suffixes(tensor_str, suffixes, indent, force_newline):
    """The elements and what comes after them, in lines that fit."""
    parts = [tensor_str]
    length = len(tensor_str) - tensor_str.rfind("\n") + 1
    for suffix in suffixes:
        if force_newline or length + len(suffix) + 2 > PRINT_OPTS.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            length = indent + len(suffix)
            force_newline = False
        else:
            parts.append(", " + suffix)
            length += len(suffix) + 2
    return "".join([*parts, ")"])


def _str_intern(inp, *, tensor_contents=None):
    """What repr says, with other text in the place of the elements."""
    text = _C.Tensor.__repr__(inp)
    return text if tensor_contents is None else text.replace(_elements(inp), tensor_contents, 1)
