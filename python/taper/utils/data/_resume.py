"""Where a loader stands: what state_dict() saves and load_state_dict() goes back to.

An epoch is known by the states that the random generators had when its order was drawn, and by how many batches the
program has got. To go back, the order is drawn again from those states and as many batches of indices are passed over;
no sample is read for them. Samplers and datasets that have state_dict and load_state_dict of their own are asked
instead."""

import sys
from contextlib import contextmanager
from copy import deepcopy

from taper import _C
from taper.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

_OWN = BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler


def can_tell(thing):
    """Has it a state of its own to save and to load?"""
    return callable(getattr(thing, "state_dict", None)) and callable(getattr(thing, "load_state_dict", None))


def numbers_state():
    """The states of all generators that a program draws from without naming them."""
    import random

    state = {"torch": _C.default_generator.get_state(), "random": random.getstate()}
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        name, words, *rest = numpy.get_state()
        state["numpy"] = (name, words.tolist(), *rest)
    return state


def set_numbers_state(state):
    import random

    _C.default_generator.set_state(state["torch"])
    if "random" in state:
        random.setstate(state["random"])
    numpy = sys.modules.get("numpy.random")
    if numpy is not None and "numpy" in state:
        numpy.set_state(state["numpy"])


def same_numbers(a, b):
    return (
        a.keys() == b.keys()
        and _C._functions["equal"](a["torch"], b["torch"])
        and all(a[key] == b[key] for key in a if key != "torch")
    )


def dataset_state(fetcher):
    """What a dataset with a state_dict tells, and the iterator over an iterable one; None where neither can."""
    parts = {"dataset": fetcher.dataset, "iterator": getattr(fetcher, "dataset_iter", None)}
    told = {name: deepcopy(part.state_dict()) for name, part in parts.items() if can_tell(part)}
    if told:
        told["ended"] = getattr(fetcher, "ended", False)
    return told or None


def tell_dataset(dataset, told):
    """Puts the dataset where it was, before anything iterates over it."""
    if "dataset" in told:
        if not can_tell(dataset):
            raise ValueError("the saved loader's dataset had a state_dict; this loader's has none")
        dataset.load_state_dict(deepcopy(told["dataset"]))


def tell_iterator(fetcher, told):
    if "iterator" in told:
        fetcher.dataset_iter.load_state_dict(deepcopy(told["iterator"]))
    fetcher.ended = told["ended"]


@contextmanager
def unchanged_numbers():
    """Whatever is drawn inside, the process's own generators go on as if it had not been."""
    now = numbers_state()
    try:
        yield
    finally:
        set_numbers_state(now)


class Sources:
    """The generators that a loader's order may come from: those that its samplers and the loader itself name, and the
    process's own."""

    def __init__(self, loader):
        self.named, self.foreign = [], False
        at, seen = loader._index_sampler, []
        while at is not None and not any(at is other for other in seen):
            seen.append(at)
            self._name(getattr(at, "generator", None))
            self.foreign = self.foreign or type(at) not in _OWN
            at = getattr(at, "sampler", None)
        self._name(loader.generator)

    def _name(self, generator):
        if isinstance(generator, _C.Generator) and not any(generator is other for other in self.named):
            self.named.append(generator)

    def state(self):
        own = numbers_state() if self.foreign else {"torch": _C.default_generator.get_state()}
        return {"named": [generator.get_state() for generator in self.named], "own": own}

    def set_state(self, state):
        for generator, saved in zip(self.named, state["named"]):
            generator.set_state(saved)
        set_numbers_state(state["own"])


class Order:
    """One epoch's indices, drawn when PyTorch's loader draws them, with what it takes to draw them again. With `saved`,
    the epoch that a state() is of, gone on with after so many batches."""

    def __init__(self, loader, saved=None, batches=0):
        self.sources, self.sampler = Sources(loader), loader._index_sampler
        self.teller = next((s for s in (loader.batch_sampler, loader.sampler) if can_tell(s)), None)
        self.at_draw = None
        if saved is not None:
            self._go_on(saved, batches)
        else:
            self.at_start, self.first_mark = self.sources.state(), self.mark()
            self.indices = iter(self.sampler)

    def __next__(self):
        if self.at_draw is None:
            self.at_draw = self.sources.state()
        return next(self.indices)

    def mark(self):
        """Where a sampler with a state_dict is now; None for others."""
        return None if self.teller is None else deepcopy(self.teller.state_dict())

    def state(self, mark):
        """What it takes to go on; mark is that of the last batch the program got."""
        if self.teller is not None:
            return {"sampler": self.first_mark if mark is None else mark}
        return {"at_start": self.at_start, "at_draw": self.at_draw}

    def _go_on(self, saved, batches):
        if ("sampler" in saved) != (self.teller is not None):
            raise ValueError(
                "the saved loader's sampler and this loader's are not alike: one has a state_dict, the other has not"
            )
        if self.teller is not None:
            self.teller.load_state_dict(deepcopy(saved["sampler"]))
            self.at_start, self.first_mark, self.indices = None, saved["sampler"], iter(self.sampler)
            return
        with unchanged_numbers():
            self.sources.set_state(saved["at_start"])
            self.at_start, self.indices = saved["at_start"], iter(self.sampler)
            if saved["at_draw"] is not None:
                self.at_draw = saved["at_draw"]
                self.sources.set_state(self.at_draw)
            for passed in range(batches):
                if next(self.indices, self) is self:
                    raise ValueError(
                        f"the saved loader had read {batches} batches, this one has only {passed} in an epoch"
                    )

    def rehearse(self, fetch, batches):
        """Reads so many batches of an iterable dataset again, as at the epoch's beginning, and forgets them."""
        with unchanged_numbers():
            if self.at_draw is not None:
                self.sources.set_state(self.at_draw)
            for _ in range(batches):
                fetch(next(self.indices))


class Position:
    """How far the program has come in an epoch. The loader holds on to it, so that a loop left early can be gone on
    with."""

    def __init__(self, order, base_seed, batches):
        self.order, self.base_seed, self.batches, self.finished = order, base_seed, batches, False
        self.mark = None  # of the sampler, as of the last batch that the program got
        self.dataset = None  # the dataset's own state as of then, where it has one and is read in this process
        self.workers = None  # per worker: what it told with its last batch that the program got
        self.turn = 0  # the worker whose batch comes next

    def state(self):
        return {
            "batches": self.batches,
            "base_seed": self.base_seed,
            "order": self.order.state(self.mark),
            "dataset": self.dataset,
            "workers": deepcopy(self.workers),
            "turn": self.turn,
        }
