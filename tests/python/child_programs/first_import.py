"""A compiled function calls one of the package's, which imports other modules of the package for the first time."""

import types
import warnings
import taper as torch

warnings.filterwarnings("error", message=".*without a graph.*")


def imports(x):
    from taper import cuda  # noqa: F401
    import taper.sparse  # noqa: F401

    return x + 1


# As a function of a module of the package.
own = types.FunctionType(imports.__code__, {"__name__": "taper._probe", "__builtins__": __builtins__}, "own")
f = torch.compile(lambda x: own(x) * 2)
x = torch.randn(3)
for _ in range(2):
    assert f(x).equal((x + 1) * 2)
