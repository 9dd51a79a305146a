"""Functions of scripts that are given as text, and names for classes that have none at the top of a module. A file of
torch.jit.save may refer to both, and means those that this program has defined or scripted: no text is taken from a
file."""

import linecache
import sys
import weakref
from contextlib import contextmanager

_defined = {}  # text -> the functions that this program has made of it
local_classes = (
    weakref.WeakValueDictionary()
)  # full name in files -> a class within a function, of a module that this program has saved


def names_of_caller(up):
    """The names that the calling code sees."""
    frame = sys._getframe(up)
    return {**frame.f_globals, **frame.f_locals}


def _basic_names():
    import typing
    import taper

    return {
        "torch": taper,
        "Tensor": taper.Tensor,
        **{name: getattr(typing, name) for name in ("List", "Dict", "Tuple", "Optional", "Any", "Union")},
    }


def compiled(src, names=None):
    """{name: function} of a text; without names, of one that was compiled before."""
    from textwrap import dedent

    if names is None:
        if src not in _defined:
            raise RuntimeError("this module was defined by a text, which this program has not defined")
        return _defined[src]
    names = {**_basic_names(), **names}
    text = dedent(src)
    file = f"<torch.jit text {len(_defined)}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file  # so that inspect finds the source
    before = dict(names)
    exec(compile(text, file, "exec"), names)
    _defined[src] = {
        name: value
        for name, value in names.items()
        if before.get(name) is not value and callable(value) and name != "__builtins__"
    }
    return _defined[src]


def _file_name(cls):
    return "_".join(part for part in cls.__qualname__.replace("<locals>", "").split(".") if part)


@contextmanager
def named_classes(module):
    """While a module is saved: a name at the top of its file for each class that stands within a function."""
    classes = {type(part) for part in getattr(module, "modules", lambda: ())() if "<locals>" in type(part).__qualname__}
    before = []
    try:
        for cls in classes:
            home, name = sys.modules[cls.__module__], _file_name(cls)
            before.append((cls, cls.__qualname__, home, name))
            setattr(home, name, cls)
            cls.__qualname__ = name
            local_classes[f"{cls.__module__}.{name}"] = cls
        yield
    finally:
        for cls, qualname, home, name in before:
            cls.__qualname__ = qualname
            delattr(home, name)
