"""torch.fx.experimental.symbolic_shapes: questions about sizes that may be symbols elsewhere. Sizes are numbers here,
so each has its answer."""


class GuardOnDataDependentSymNode(RuntimeError):
    """A size that only the data tells was asked for; never raised here."""


class ShapeEnv:
    """Settings for sizes that are symbols. Sizes are numbers here: nothing is guarded, and no symbol is made."""

    def __init__(self, *, allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True, **settings):
        self.allow_scalar_outputs = allow_scalar_outputs
        self.allow_dynamic_output_shape_ops = allow_dynamic_output_shape_ops
        self.settings = settings
        self.guards = []


def guard_or_false(a):
    return bool(a)


def guard_or_true(a):
    return bool(a)


def statically_known_true(x):
    return bool(x)


def guard_size_oblivious(expr):
    return bool(expr)


def guard_int(a):
    return int(a)


def guard_float(a):
    return float(a)


def guard_bool(a):
    return bool(a)


def is_symbolic(val):
    return False


def is_concrete_int(a):
    return True


def free_symbols(val):
    return set()


free_unbacked_symbols = free_symbols


def has_free_symbols(val):
    return False


has_free_unbacked_symbols = has_free_symbols


def definitely_true(a):
    return bool(a)


def definitely_false(a):
    return not bool(a)


def hint_int(a, fallback=None):
    return int(a)
