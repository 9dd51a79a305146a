"""torch.optim: optimisers and schedules for their learning rates."""

from taper.optim._adafactor import Adafactor
from taper.optim._muon import Muon
from taper.optim.adadelta import Adadelta
from taper.optim.adagrad import Adagrad
from taper.optim.adam import Adam
from taper.optim.adamax import Adamax
from taper.optim.adamw import AdamW
from taper.optim.asgd import ASGD
from taper.optim.lbfgs import LBFGS
from taper.optim.nadam import NAdam
from taper.optim.optimizer import Optimizer
from taper.optim.radam import RAdam
from taper.optim.rmsprop import RMSprop
from taper.optim.rprop import Rprop
from taper.optim.sgd import SGD
from taper.optim.sparse_adam import SparseAdam

_LATER = ("lr_scheduler", "swa_utils")  # loaded at their first use
__all__ = [
    "ASGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LBFGS",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
    *_LATER,
]


def __getattr__(name):
    if name in _LATER:
        from importlib import import_module

        return import_module("taper.optim." + name)
    raise AttributeError(f"module 'torch.optim' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_LATER})
