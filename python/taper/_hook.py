"""`import torch` as Taper: a finder that gives Taper's modules under PyTorch's names, and stand-ins for what is not
there yet.

There are two ways in. `taper run` calls `install()`, which puts the finder in front of all others and sees to it that
Python processes started from here get it too. `taper torch install` leaves packages in site-packages that call
`stand_in()` when they are imported; a process that one starts finds those by itself. This file imports neither taper
nor anything else that takes time: a child process that never says `import torch` pays nothing.
"""

import os
import sys
from types import FunctionType, ModuleType

# in the environment of a process that runs under the hook and of its children: the interpreter it is for
VARIABLE = "TAPER_RUN"
PACKAGES = {
    name: "taper" if name == "torch" else "taper." + name
    for name in (
        "torch",
        "functorch",
        "torchvision",
        "torchaudio",
        "torchtext",
        "horovod",
        "deepspeed",
        "tensorboardX",
        "intel_extension_for_pytorch",
        "oneccl_bindings_for_pytorch",
    )
}
SHIMMED = (
    "torch",
    "torchvision",
    "torchaudio",
)  # those that are distributions: `taper torch install` makes them, pip asks for them
HOME = os.path.dirname(os.path.abspath(__file__))
_known = {}
_asked = set()  # names that are being imported because a module was asked for them


class NotCovered(AttributeError, NotImplementedError):
    """A name of PyTorch's that Taper does not have yet."""

    def __init__(self, full_name):
        super().__init__(
            f"{full_name} is not in Taper yet; `taper names {full_name.rpartition('.')[0] or full_name}` shows what is"
        )


def known():
    """PyTorch's public names: module or class -> the names in it."""
    if not _known:
        import gzip

        with gzip.open(os.path.join(HOME, "_names.txt.gz"), "rt", encoding="utf-8") as file:
            for line in file:
                if not line.startswith("#"):
                    owner, _, names = line.partition(":")
                    _known[owner] = frozenset(names.split())
    return _known


def taper_name(name):
    """The module of Taper's that answers to a module's name, or None where the name is not PyTorch's."""
    top, dot, rest = name.partition(".")
    if top not in PACKAGES or top == "horovod" and rest and rest.split(".")[0] != "torch":
        return None
    return PACKAGES[top] + dot + rest


def _private(name):
    return name.rpartition(".")[2].startswith("_")


def _is_module(name):
    """Does PyTorch (or a package around it, whose names no list holds) have this module? The list holds classes, too,
    whose names begin with a capital, but for two."""
    if not name.startswith("torch."):
        return True
    if any(_private(part) for part in name.split(".")):
        return True
    return (
        name in known()
        and not any(part[:1].isupper() for part in name.split("."))
        and name not in ("torch.device", "torch.dtype")
    )


def _held(ours):
    """What one of Taper's modules has under a name that no file of its own stands for, such as `torch.ops`; None where
    it has nothing."""
    parent, _, name = ours.rpartition(".")
    names = getattr(sys.modules.get(parent), "__dict__", {})
    answer = names.get("__getattr__")
    answer = getattr(answer, "before", answer)  # without what tells of missing names, which would import them
    try:
        return names[name] if name in names else answer and answer(name)
    except AttributeError:
        return None


class Absent(ModuleType):
    """Stands for a module, class or function that is not there yet: it can be imported, named in annotations and asked
    for with isinstance, which says no; using it raises an error with its full name. It is no container, no number and
    no context."""

    __iter__ = __contains__ = __reversed__ = None  # __getitem__ alone would make an endless sequence of it

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        return _missing(self.__name__, name)

    def __call__(self, *args, **kwargs):
        raise NotCovered(self.__name__)

    def __mro_entries__(self, bases):
        raise NotCovered(self.__name__)

    def __instancecheck__(self, instance):
        return False

    def __subclasscheck__(self, subclass):
        return False

    def __getitem__(self, parameters):
        return self

    def __or__(self, other):
        return self

    __ror__ = __or__

    def __bool__(self):
        raise NotCovered(self.__name__)

    def __repr__(self):
        return f"<{self.__name__}, not in Taper yet>"


def _imports_from(frame):
    """Is this frame at `from module import name`, and would it not notice an error? In a try block with an except
    clause it asks whether the name is there, and is told."""
    from opcode import opmap

    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"] and not _is_tried(frame.f_code, frame.f_lasti)


def _is_tried(code, at):
    """Does an except clause of this code catch what happens at this instruction? (Python 3.10 keeps no table that says
    so.)"""
    import dis

    if not hasattr(code, "co_exceptiontable"):
        return False
    names = {i.offset: i.opname for i in dis.get_instructions(code)}
    offsets, table, seen = sorted(names), dis._parse_exception_table(code), set()
    while at not in seen:  # from handler to handler outwards: a with statement has one, too
        seen.add(at)
        for entry in table:
            if entry.start <= at < entry.end:
                at = entry.target
                if _is_except_clause([names[offset] for offset in offsets if offset >= at]):
                    return True
                break
    return False


def _is_except_clause(handler):
    """Do these instructions begin an except clause, and not the end of a with or of a try ... finally?"""
    if handler[0] != "PUSH_EXC_INFO":
        return False
    if handler[1] == "POP_TOP":  # a bare except
        return True
    for name in handler[1:]:
        if name in ("WITH_EXCEPT_START", "PUSH_EXC_INFO", "RERAISE"):
            return False
        if name == "CHECK_EXC_MATCH":
            return True
    return False


def _only_asks():
    """Does whoever looks for a module only ask whether it is there: by find_spec, or by an import in a try block?"""
    from opcode import opmap

    frame = sys._getframe(2)
    while frame and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    if frame and frame.f_globals.get("__name__") == "importlib" and frame.f_code.co_name == "import_module":
        caller = frame.f_back
        return caller is not None and _is_tried(caller.f_code, caller.f_lasti)
    if frame is None:
        return False
    return frame.f_code.co_code[frame.f_lasti] != opmap["IMPORT_NAME"] or _is_tried(frame.f_code, frame.f_lasti)


def _import_asked(full):
    """Imports a module because another one was asked for it. No except clause is around the import itself, which would
    count as only asking (_only_asks)."""
    from importlib import import_module

    _asked.add(full)  # a module's __getattr__ that wraps this one is asked again while the import looks for a name
    try:
        return import_module(full)
    finally:
        _asked.discard(full)


def _missing(module, name, depth=2):
    """What a module answers for a name that Taper lacks: a stand-in for `from module import name` and for submodules
    that PyTorch imports by itself; otherwise an error, so that hasattr says no."""
    full = f"{module}.{name}"
    names = known()
    listed = module in names
    if listed and name not in names[module]:
        raise AttributeError(f"module '{module}' has no attribute '{name}'")
    if full in names and isinstance(sys.modules.get(full, 0), ModuleType):
        return sys.modules[full]
    if full in names and not name[0].isupper() and full not in _asked:
        try:
            return _import_asked(full)
        except ModuleNotFoundError as error:
            if error.name != full:
                raise
    if _imports_from(sys._getframe(depth)):
        return Absent(full)
    raise NotCovered(full)


# Modules that have `__all__` in PyTorch: known() lists what is in it.
_WITH_ALL = frozenset(
    """
    torch torch.special torch.nn.init torch.nn.parallel torch.random torch.serialization torch.nn.utils.rnn
    torch.nn.parameter torch.hub torch.library torch.overrides torch.nested torch.nn.utils.parametrize
    torch.nn.utils.parametrizations torch.storage torch.functional torch.autograd.function torch.cpu torch.cuda
    torch.xpu torch.signal.windows torch.utils.hooks""".split()
)


def names_of(module, name):
    """What `from module import *` takes: PyTorch's names that are there, without modules."""
    held = vars(module)
    return [
        each
        for each in sorted(known()[name].intersection(dir(module)))
        if not (isinstance(held[each], ModuleType) if each in held else _is_module(f"{name}.{each}"))
    ]


def _answer_for_missing(module, name):
    """Lets one of Taper's own modules say clearly what it lacks."""
    before = module.__dict__.get("__getattr__")
    if getattr(before, "names_missing", False):
        return

    def __getattr__(attribute):
        if before:
            try:
                return before(attribute)
            except AttributeError:
                pass
        if attribute == "__all__" and (name in _WITH_ALL or name.startswith("torch.nn.modules.") and name in known()):
            return names_of(module, name)
        if attribute.startswith("_"):
            raise AttributeError(f"module '{name}' has no attribute '{attribute}'")
        return _missing(name, attribute)

    __getattr__.names_missing, __getattr__.before = True, before
    module.__getattr__ = __getattr__


def _torch_name(ours):
    """The name that scripts know one of Taper's modules by."""
    rest = ours[len("taper.") :]
    return rest if rest.split(".")[0] in PACKAGES else "torch." + rest


def _present(ours, module):
    """What stands in one of Taper's modules says that it is of PyTorch's module, as printed classes show and as tracers
    ask (`type(m).__module__.startswith("torch.nn")`). What has a private file of its own belongs to the first module
    that shows it."""
    alias, classes = "torch" if ours == "taper" else _torch_name(ours), False
    for name, value in list(vars(module).items()):
        home = getattr(value, "__module__", None) if isinstance(value, (type, FunctionType)) else None
        if not isinstance(home, str) or not home.startswith("taper."):
            continue
        hidden = any(_private(part) for part in home.split(".")) and not _private(name) and name == value.__name__
        made = sys.modules.get(home)
        if home == ours or hidden:
            shown = alias
            classes |= isinstance(value, type)
        elif made is not None and made.__spec__ is None:  # a module that the package made, without a file
            shown = _torch_name(home)
            sys.modules.setdefault(shown, made)
        else:
            continue
        try:
            value.__module__ = shown
        except TypeError:  # of C
            pass
    if classes and ours != "taper":
        sys.modules.setdefault(alias, module)  # where inspect looks for a class; `python -m` wants to import by itself


def _telling(ours, path):
    """The spec of one of Taper's modules that the package imports by itself: scripts reach it as an attribute, and are
    told what it lacks, too."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(ours, path)
    if spec is None or spec.loader is None:
        return spec
    run = spec.loader.exec_module

    def exec_module(module):
        run(module)
        _present(ours, module)
        _answer_for_missing(module, _torch_name(ours))

    spec.loader.exec_module = exec_module
    return spec


def _hide_modules(alias, package, ours):
    """A function that a package takes from a file of the same name (`torch.nn.utils.weight_norm`) hides the file's
    module. To import the module later must not undo that, so it counts as imported, as it is in PyTorch."""
    for name, value in list(vars(package).items()):
        module = sys.modules.get(f"{ours}.{name}")
        if isinstance(module, ModuleType) and not isinstance(value, ModuleType):
            sys.modules.setdefault(f"{alias}.{name}", module)


class Loader:
    """Hands out a module that exists already."""

    def __init__(self, module, alias):
        self.module = module
        self.alias = alias
        self.spec = module.__spec__

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        if module.__name__ == "taper":
            module.__name__ = "torch"  # packages that patch PyTorch ask for it
        if self.spec is not None:
            module.__spec__ = self.spec  # the import system has put that of the alias there
            _hide_modules(self.alias, module, self.spec.name)

    def get_code(self, name):
        """For `python -m torch.distributed.run`, which wants the module's code rather than the module."""
        return self.spec.loader.get_code(self.spec.name)


class Finder:
    """Finds `torch` and its company: before any that are installed under `taper run`. Where shims called it, the shims
    are what is installed as PyTorch, and packages around it that are installed are left alone."""

    def __init__(self, shims=False):
        self.shims = shims

    def _is_installed(self, name):
        from importlib.machinery import PathFinder

        top = name.partition(".")[0]
        return self.shims and top not in SHIMMED and PathFinder.find_spec(top) is not None

    def find_spec(self, name, path=None, target=None):
        if name.startswith("taper.") and not any(_private(part) for part in name.split(".")):
            return _telling(name, path)
        ours = taper_name(name)
        if ours is None or self._is_installed(name):
            return None
        module = self._taper_module(ours)
        if module is not None:
            _answer_for_missing(module, name)
        else:
            module = _held(ours)
            if not isinstance(module, ModuleType):
                if (
                    module is not None or not _is_module(name) or _only_asks()
                ):  # a class or a function is no module in PyTorch either
                    return None
                module = Absent(name)
                module.__path__ = []
        from importlib.machinery import ModuleSpec

        if sys.modules.get(name) is module:  # by _present; the import system would run it again by its own spec
            del sys.modules[name]
        return ModuleSpec(
            name, Loader(module, name), origin=getattr(module, "__file__", None), is_package=hasattr(module, "__path__")
        )

    @staticmethod
    def _taper_module(ours):
        from importlib import import_module

        try:
            return import_module(ours)
        except ModuleNotFoundError as error:
            if error.name and (ours == error.name or ours.startswith(error.name + ".")):
                return None
            raise

    def find_distributions(self, context=None):
        """What importlib.metadata is told of torch, torchvision and torchaudio; shims have files that tell it."""
        name = getattr(context, "name", None)
        if self.shims or name is not None and name not in SHIMMED:
            return
        from taper._torch_install import Described

        for name in SHIMMED if name is None else (name,):
            yield Described(name)


def install(shims=False):
    """From here on, in this process and in Python processes that it starts, PyTorch's names are Taper's."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, Finder(shims))
    if not shims:
        for name in [name for name in sys.modules if taper_name(name)]:  # nothing that was there before may answer
            del sys.modules[name]
        os.environ.update(for_children())
    loaded = {
        name: module
        for name, module in sys.modules.items()
        if name.partition(".")[0] == "taper" and module is not None and not any(map(_private, name.split(".")))
    }
    for name in sorted(loaded, reverse=True):  # a file before its package, which shows what the file has
        _present(name, loaded[name])
        if name != "taper":
            _answer_for_missing(loaded[name], _torch_name(name))


def stand_in(name):
    """Called by a shim while it is imported: Taper's module takes its place. A thread that waited for the import keeps
    the shim, so that one hands on what it is asked for."""
    install(shims=True)
    loader = next(finder for finder in sys.meta_path if isinstance(finder, Finder)).find_spec(name).loader
    loader.exec_module(loader.module)
    sys.modules[name].__getattr__ = lambda attribute: getattr(loader.module, attribute)
    sys.modules[name] = loader.module


def for_children():
    """The variables that give a Python process the same names."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    child = os.path.join(HOME, "_child")
    return {
        VARIABLE: f"{sys.implementation.cache_tag} {os.path.dirname(HOME)}",
        "PYTHONPATH": os.pathsep.join([child] + [path for path in paths if path and path != child]),
    }
