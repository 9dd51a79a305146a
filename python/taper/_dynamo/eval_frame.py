"""What torch.compile gives back: a module around the module, a function around the function. The first call with
arguments of a kind runs as Python while its operators are recorded; later ones run the recorded graph, as long as what
the first call saw of the program is as it was."""

import functools
import warnings
import weakref

import taper._C as _C
from taper._dynamo import _proven, exc
from taper.nn.modules.module import Module

_all = weakref.WeakSet()
_proven.tell()


class Capture:
    """Decides what a call that no graph fits becomes: a new graph, or the function as it is."""

    def __init__(self, function, fullgraph, limit, quiet):
        self.function, self.fullgraph, self.limit, self.quiet, self.tries, self.captured = (
            function,
            fullgraph,
            limit,
            quiet,
            0,
            None,
        )

    def miss(self, *args, **kwargs):
        captured = self.captured()
        if captured is None or self.tries > 1:
            return self.function(*args, **kwargs)
        if captured.count >= self.limit():
            self.give_up(
                f"it was captured {captured.count} times, for other arguments or other values of what it reads", None
            )
            return self.function(*args, **kwargs)
        _proven.tell()
        result, why, where = captured.capture(*args, **kwargs)
        if why is None:
            return result
        if self.fullgraph:
            raise exc.Unsupported(f"{where + ': ' if where else ''}{why}")
        self.tries += 1
        if where is not None or self.tries > 1:  # something that the first call sets up may be there at the second
            self.give_up(why, where)
        return result

    def give_up(self, why, where):
        self.tries = 2
        if self.quiet:
            return
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        kind = type(self.function)
        code = getattr(
            getattr(kind, "forward", self.function if hasattr(self.function, "__code__") else kind.__call__),
            "__code__",
            None,
        )
        if where is None:
            where = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else name
        warnings.warn(f"torch.compile runs {name} without a graph, for what is at {where}: {why}", stacklevel=3)


def captured(function, fullgraph=False, limit=None, quiet=False, replay=0):
    """The callable that captures `function` and runs its graphs; `quiet`: a trace or script, which holds what it saw,
    without a warning where it cannot; `replay`: tp_replay's number, how steps on a GPU are started."""
    from taper._dynamo import config

    decides = Capture(function, fullgraph, lambda: config.recompile_limit if limit is None else limit, quiet)
    given = _C.Captured(function, decides.miss, not quiet, replay)
    decides.captured = weakref.ref(given)
    _all.add(given)
    return given


def reset():
    for given in list(_all):
        given.reset()
        given.miss.__self__.tries = 0


class OptimizedModule(Module):
    """A compiled module: calls and attributes go to `_orig_mod`, its only child, so that state_dict's keys begin with
    its name."""

    def __init__(self, mod, dynamo_ctx=None):
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.__dict__["dynamo_ctx"] = functools.partial(
            wrapped, how=dynamo_ctx or captured
        )  # packages compile other methods the same way
        self.__dict__["_captured"] = (dynamo_ctx or captured)(mod)

    @property
    def training(self):
        return self._modules["_orig_mod"].training

    @training.setter
    def training(self, value):
        if "_modules" in self.__dict__ and "_orig_mod" in self._modules:  # not yet while Module.__init__ runs
            self._modules["_orig_mod"].training = value

    def forward(self, *args, **kwargs):
        return self.__dict__["_captured"](*args, **kwargs)

    def __getattr__(self, name):
        modules = self.__dict__.get("_modules", {})
        if name == "_orig_mod" or "_orig_mod" not in modules:
            if name in modules:
                return modules[name]
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(modules["_orig_mod"], name)

    def __setattr__(self, name, value):
        modules = self.__dict__.get("_modules", {})
        if "_orig_mod" not in modules or name in ("_orig_mod", "training") or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(modules["_orig_mod"], name, value)

    def __delattr__(self, name):
        delattr(self._modules["_orig_mod"], name)

    def __dir__(self):
        return dir(self._modules["_orig_mod"]) + ["_orig_mod"]

    def __len__(self):
        return len(self._modules["_orig_mod"])

    def __getitem__(self, key):
        return self._modules["_orig_mod"][key]

    def __iter__(self):
        return iter(self._modules["_orig_mod"])

    def __reduce__(self):
        return OptimizedModule, (self._modules["_orig_mod"],)


def wrapped(model, how=captured):
    """The module or function as torch.compile hands it out; `how` makes the callable."""
    if isinstance(model, OptimizedModule) or hasattr(model, "_torchdynamo_orig_callable"):
        return model
    if isinstance(model, Module):
        return OptimizedModule(model, how)
    if isinstance(model, type):
        return model
    compiled = how(model)
    if compiled is model:
        compiled = functools.partial(model)
        if hasattr(model, "__code__"):
            compiled.__code__ = model.__code__
    functools.update_wrapper(compiled, model)
    compiled._torchdynamo_orig_callable = model
    return compiled
