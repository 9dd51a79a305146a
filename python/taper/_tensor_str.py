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
