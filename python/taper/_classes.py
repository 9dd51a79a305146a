"""torch.classes: C++ classes that libraries register. Those libraries are built for PyTorch's ABI; none can be loaded
here."""

from types import ModuleType


class ScriptObject:
    """An instance of such a class."""


class _Namespace(ModuleType):
    """torch.classes.NAMESPACE."""

    def __getattr__(self, name):
        raise RuntimeError(
            f"Class {self.__name__.rpartition('.')[2]}.{name} not registered! Tried to look up a C++ class, which "
            "needs a library built for PyTorch"
        )


class _Classes(ModuleType):
    """torch.classes."""

    def __init__(self):
        super().__init__("torch.classes")
        self.loaded_libraries = set()
        self.__file__ = "_classes.py"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"module 'torch.classes' has no attribute '{name}'")
        made = self.__dict__[name] = _Namespace(f"torch.classes.{name}")
        return made

    def load_library(self, path):
        from taper import ops

        ops.load_library(path)


classes = _Classes()
