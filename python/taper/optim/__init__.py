"""torch.optim: optimisers and schedules for their learning rates. Each is loaded at its first use."""
from taper.optim.optimizer import Optimizer  # noqa: F401

_HOMES = {"ASGD": "asgd", "Adadelta": "adadelta", "Adafactor": "_adafactor", "Adagrad": "adagrad", "Adam": "adam", "AdamW": "adamw", "Adamax": "adamax",
          "LBFGS": "lbfgs", "Muon": "_muon", "NAdam": "nadam", "RAdam": "radam", "RMSprop": "rmsprop", "Rprop": "rprop", "SGD": "sgd", "SparseAdam": "sparse_adam"}
_ROOMS = ("lr_scheduler", "swa_utils")
__all__ = [*_HOMES, "Optimizer", *_ROOMS]


def __getattr__(name):
    from importlib import import_module
    if name in _ROOMS:
        return import_module("taper.optim." + name)
    if name in _HOMES:
        found = globals()[name] = getattr(import_module("taper.optim." + _HOMES[name]), name)
        return found
    raise AttributeError(f"module 'torch.optim' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *__all__})
