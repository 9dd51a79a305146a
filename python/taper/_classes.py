"""torch.classes: C++ classes that extensions register with torch::class_, and ScriptObject, their instances."""

from types import ModuleType

_found = {}  # "NAMESPACE.NAME": a class


class ScriptObject:
    """An instance of a class of torch.classes."""

    def __init__(self, *args, **kwargs):
        raise TypeError("torch.ScriptObject: instances are made by classes of torch.classes")


class ScriptClass:
    """torch.classes.NAMESPACE.NAME: called, it makes an instance."""

    def __init__(self, name, doc, members):
        self._name, self.__doc__ = name, doc
        self.__name__ = name.rpartition(".")[2]
        self._made, self._set = None, {}
        contents = {"__module__": "torch.classes." + name.rpartition(".")[0], "__slots__": ("_capsule",)}
        getters = {}
        for kind, member, function, names, defaults in members:
            if kind == "init":
                self._made = _bound(name, function, names, defaults)
            elif kind == "get":
                getters[member] = function
            elif kind == "set":
                self._set[member] = function
            elif kind == "static":
                setattr(self, member, _bound(f"{name}.{member}", function, names, defaults))
            else:
                contents[member] = _bound(f"{name}.{member}", function, ["self", *names] if names else (), defaults)
        for member, function in getters.items():
            contents[member] = property(function, self._set.get(member))
        contents["__reduce__"] = _reduce
        if "__getstate__" not in contents:
            contents["__getstate__"] = _no_state
        self._type = type(self.__name__, (ScriptObject,), contents)

    def __call__(self, *args, **kwargs):
        if self._made is None:
            raise RuntimeError(f"torch.classes.{self._name} has no constructor: def(torch::init<...>()) adds one")
        return self._made(*args, **kwargs)

    def __instancecheck__(self, other):
        return isinstance(other, self._type)

    def __repr__(self):
        return f"<class 'torch.classes.{self._name}'>"


def _no_state(self):
    raise RuntimeError(
        f"Tried to serialize object {type(self).__module__[14:]}.{type(self).__name__} which does not have a "
        "__getstate__ method defined!"
    )


def _reduce(self):
    return restore, (f"{type(self).__module__[14:]}.{type(self).__name__}", self.__getstate__())


def restore(name, state):
    """An instance out of a file."""
    namespace, _, short = name.rpartition(".")
    return getattr(getattr(classes, namespace), short).__setstate__(state)


def _bound(name, function, names, defaults):
    """The function, which takes its arguments by name, too, where they have names."""
    if not names:

        def call(*args):
            return function(*args)

    else:
        needed = len(names) - len(defaults)

        def call(*args, **kwargs):
            values = list(args)
            for place in range(len(args), len(names)):
                if names[place] in kwargs:
                    values.append(kwargs.pop(names[place]))
                elif place >= needed:
                    values.append(defaults[place - needed])
                else:
                    raise TypeError(f"{name}() is missing value for argument '{names[place]}'")
            if kwargs:
                raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(kwargs))}'")
            return function(*values)

    call.__name__ = name.rpartition(".")[2]
    call.__qualname__ = name
    return call


def register(name, doc, members):
    """What a shared library lists of a class."""
    _found[name] = ScriptClass(name, doc, members)


def wrap(name, capsule):
    """The instance that a capsule of C++ holds."""
    made = object.__new__(_found[name]._type)
    made._capsule = capsule
    return made


class _Namespace(ModuleType):
    """torch.classes.NAMESPACE."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__.rpartition('.')[2]}.{name}"
        if full not in _found:
            from taper._cpp_operators import look_again  # at extensions that were imported since

            look_again()
        if full not in _found:
            raise RuntimeError(
                f"Class {full} not registered! Tried to look up a C++ class that no loaded library has: "
                "torch.classes.load_library loads one"
            )
        return _found[full]


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
