"""Several pipes over one: all of its items for each (fork), or each item for one of them (demux). What one child has
not read yet waits in a buffer."""

import copy as copying
import warnings

from taper.utils.data.datapipes.datapipe import IterDataPipe
from taper.utils.data.datapipes.utils.common import _check_unpickable_fn


class _Container(IterDataPipe):
    """What the children share: the pipe they read from, the reading of it, and how far each of them is."""

    def __init__(self, datapipe, num_instances, buffer_size):
        self.main_datapipe, self.num_instances, self.buffer_size = datapipe, num_instances, buffer_size
        if buffer_size < 0:
            warnings.warn(
                f"Unlimited buffer size is set for `{self.word}`, please be aware of OOM risks",
                UserWarning,
                stacklevel=4,
            )
        self.reset()

    def reset(self):
        self._reading = None
        self._exhausted = [False] * self.num_instances

    def is_every_instance_exhausted(self):
        return all(self._exhausted)

    def __getstate__(self):
        state = super().__getstate__()
        return {key: value for key, value in state.items() if key not in ("_reading", "_waiting", "_items")}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.reset()

    def _next_of_source(self):
        if self._reading is None:
            self._reading = iter(self.main_datapipe)
        return next(self._reading)

    def get_next_element_by_instance(self, instance_id):
        try:
            yield from self._items_of(instance_id)
        finally:
            self._exhausted[instance_id] = True

    def _check_buffer_size(self, held):
        if 0 <= self.buffer_size < held:
            raise BufferError(
                f"{type(self).__name__.strip('_')} buffer overflow, buffer size {self.buffer_size} is insufficient."
            )


class _ForkerIterDataPipe(_Container):
    word = "fork"

    def __init__(self, datapipe, num_instances, buffer_size, copy=None):
        kinds = {None: None, "shallow": copying.copy, "deep": copying.deepcopy}
        if copy not in kinds:
            raise ValueError(f"Unknown copy method `{copy}`, expected one of None, `shallow` or `deep`.")
        self.copy_fn = kinds[copy]
        super().__init__(datapipe, num_instances, buffer_size)

    def reset(self):
        super().reset()
        self._items, self._first, self._read = (
            [],
            0,
            [0] * self.num_instances,
        )  # items that wait, the number of the first, how many each child has read

    def _items_of(self, instance_id):
        while True:
            at = self._read[instance_id] - self._first
            if at == len(self._items):
                self._check_buffer_size(
                    len(self._items) + 1 - (min(self._read) - self._first) if self.num_instances > 1 else 0
                )
                try:
                    self._items.append(self._next_of_source())
                except StopIteration:
                    return
            item = self._items[at]
            self._read[instance_id] += 1
            slowest = min(self._read)
            if slowest > self._first:
                del self._items[: slowest - self._first]
                self._first = slowest
            yield item if self.copy_fn is None else self.copy_fn(item)

    def __len__(self):
        return len(self.main_datapipe)


class _DemultiplexerIterDataPipe(_Container):
    word = "demux"

    def __init__(self, datapipe, num_instances, classifier_fn, drop_none, buffer_size):
        self.classifier_fn, self.drop_none = classifier_fn, drop_none
        super().__init__(datapipe, num_instances, buffer_size)

    def reset(self):
        super().reset()
        self._waiting = [[] for _ in range(self.num_instances)]

    def _items_of(self, instance_id):
        while True:
            while not self._waiting[instance_id]:
                try:
                    item = self._next_of_source()
                except StopIteration:
                    return
                kind = self.classifier_fn(item)
                if kind is None and self.drop_none:
                    continue
                if kind is None or not 0 <= kind < self.num_instances:
                    raise ValueError(
                        f"Output of the classification fn should be between 0 and {self.num_instances - 1}. {kind} is "
                        "returned."
                    )
                if kind != instance_id:
                    self._check_buffer_size(sum(map(len, self._waiting)) + 1)
                self._waiting[kind].append(item)
            yield self._waiting[instance_id].pop(0)


class _ChildDataPipe(IterDataPipe):
    """One of the pipes. A child that begins anew makes all of them begin anew."""

    _is_child_datapipe = True

    def __init__(self, main_datapipe, instance_id):
        self.main_datapipe, self.instance_id = main_datapipe, instance_id

    def __iter__(self):
        return self.main_datapipe.get_next_element_by_instance(self.instance_id)

    def __len__(self):
        return len(self.main_datapipe)

    def _next_reading(self, fresh):
        main = self.main_datapipe
        if main._valid_iterator_id is None:
            main._valid_iterator_id = 0
        elif self._valid_iterator_id == main._valid_iterator_id:
            main._valid_iterator_id += 1
            if not main.is_every_instance_exhausted():
                warnings.warn(
                    "Some child DataPipes are not exhausted when __iter__ is called. We are resetting the buffer and "
                    "each child DataPipe will read from the start again.",
                    UserWarning,
                    stacklevel=4,
                )
            main.reset()
        self._valid_iterator_id = main._valid_iterator_id
        return self._valid_iterator_id

    def _is_valid(self, number):
        return number == self._valid_iterator_id == self.main_datapipe._valid_iterator_id


def _children(container):
    return [_ChildDataPipe(container, i) for i in range(container.num_instances)]


class ForkerIterDataPipe(IterDataPipe):
    """Several pipes over one, each with all of its items."""

    def __new__(cls, datapipe, num_instances, buffer_size=1000, copy=None):
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")
        return (
            datapipe
            if num_instances == 1
            else _children(_ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy))
        )


class DemultiplexerIterDataPipe(IterDataPipe):
    """Several pipes over one; a function tells to which of them an item goes."""

    def __new__(cls, datapipe, num_instances, classifier_fn, drop_none=False, buffer_size=1000):
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")
        _check_unpickable_fn(classifier_fn)
        return _children(_DemultiplexerIterDataPipe(datapipe, num_instances, classifier_fn, drop_none, buffer_size))
