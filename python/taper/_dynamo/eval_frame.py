"""What torch.compile gives back: a module around the module, a function around the function."""
import functools

from taper.nn.modules.module import Module


class OptimizedModule(Module):
    """A compiled module: calls and attributes go to `_orig_mod`, its only child, so that state_dict's keys begin with its name."""

    def __init__(self, mod, dynamo_ctx=None):
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.__dict__["dynamo_ctx"] = dynamo_ctx

    @property
    def training(self):
        return self._modules["_orig_mod"].training

    @training.setter
    def training(self, value):
        if "_modules" in self.__dict__ and "_orig_mod" in self._modules:  # not yet while Module.__init__ runs
            self._modules["_orig_mod"].training = value

    def forward(self, *args, **kwargs):
        return self._modules["_orig_mod"](*args, **kwargs)

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


def wrapped(model):
    """The module or function as torch.compile hands it out."""
    if isinstance(model, OptimizedModule) or hasattr(model, "_torchdynamo_orig_callable"):
        return model
    if isinstance(model, Module):
        return OptimizedModule(model)
    if isinstance(model, type):
        return model

    @functools.wraps(model)
    def compiled(*args, **kwargs):
        return model(*args, **kwargs)
    compiled._torchdynamo_orig_callable = model
    return compiled
