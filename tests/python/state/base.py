"""What the programs of this folder share: each source of numbers is a function that gives two, one that reads some
state and one that changes it. `plain` ones a graph can follow, and must; of the others it has to be right, by a graph
or without one."""

import os
import random
import sys

import numpy as np
import taper as torch

SOURCES, PLAIN, cleanup = {}, set(), []


def source(function, plain=False):
    SOURCES[function.__name__] = function
    if plain:
        PLAIN.add(function.__name__)
    return function


def plain(function):
    return source(function, True)


def nothing():
    pass


class Box:
    shared = 1.0

    def __init__(self, k=1.0):
        self.k = k

    def value(self):
        return self.k

    def __call__(self):
        return self.k


class OtherBox(Box):
    def value(self):
        return self.k * 2 + 1


class Slots:
    __slots__ = ("k",)


class DerivedSlots(Slots):
    __slots__ = ("other",)


def reset():
    """Everything as it was before the first program."""
    while cleanup:
        cleanup.pop()()
    for name in ("objects", "outside"):
        sys.modules["state." + name].some_global = 1.0
    sys.modules["state.objects"].some_list[:] = [1.0]
    sys.modules.pop("taper_test_module", None)
    os.environ.pop("TAPER_TEST_K", None)
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    torch.set_num_threads(2)
