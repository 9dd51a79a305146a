"""What a loader's worker process does: reads batches by the indices it is sent and sends them back, in that order,
until the other end of its channel is gone. With each batch it tells what changed in its state, so that the loader can
say where it stands at any time."""

import os
import sys
from functools import partial

from taper import _C
from taper._C import UntypedStorage
from taper._utils import ExceptionWrapper
from taper.utils.data._resume import (
    dataset_state,
    numbers_state,
    same_numbers,
    set_numbers_state,
    tell_dataset,
    tell_iterator,
)


class WorkerInfo:
    """Which worker this is: id, num_workers, seed, and its copy of the dataset."""

    __initialized = False

    def __init__(self, **kwargs):
        self.__dict__.update(kwargs)
        self.__keys = tuple(kwargs)
        self.__initialized = True

    def __setattr__(self, key, value):
        if self.__initialized:
            raise RuntimeError(f"Cannot assign attributes to {type(self).__name__} objects")
        super().__setattr__(key, value)

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{key}={getattr(self, key)}' for key in self.__keys)})"


_worker_info = None


def get_worker_info():
    """In a worker process of a loader: its WorkerInfo. None elsewhere."""
    return _worker_info


def _generate_state(base_seed, worker_id):
    """Four numbers to seed NumPy with, other ones for each worker: what numpy.random.SeedSequence draws from both
    seeds."""
    from numpy.random import SeedSequence

    return SeedSequence([worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]).generate_state(4).tolist()


class _IterableDatasetStopIteration:
    """A worker's word that its share of an iterable dataset is read."""

    def __init__(self, worker_id):
        self.worker_id = worker_id


class _ResumeIteration:
    """A loader's word that another epoch begins."""

    def __init__(self, seed=None):
        self.seed = seed


class ManagerWatchdog:
    """Tells a worker whether the process that started it is still there."""

    def __init__(self):
        self.manager_pid, self.manager_dead = os.getppid(), False

    def is_alive(self):
        self.manager_dead = self.manager_dead or os.getppid() != self.manager_pid
        return not self.manager_dead


class _Pool:
    """Shared memory that a worker has sent and may use again when nobody looks at it any more, here or there."""

    MOST = 8  # segments that are kept

    def __init__(self):
        self.segments = []

    def get(self, n):
        """Shared memory of n bytes or a little more, or None if there is no room for it."""
        for i, segment in enumerate(self.segments):
            if n <= len(segment) <= n + n // 4 and segment._shared_count(0) == 0 and segment._references() == 1:
                self.segments.append(self.segments.pop(i))
                return segment
        try:
            segment = UntypedStorage._new_shared(n + n // 16)
        except RuntimeError:
            return None
        self.segments = [*self.segments[-self.MOST + 1 :], segment]
        return segment


pool = _Pool()


def _is_pipe(dataset):
    """Is it a pipe? Where nobody has imported pipes there is none."""
    pipes = sys.modules.get("taper.utils.data.datapipes.datapipe")
    return pipes is not None and isinstance(dataset, (pipes.IterDataPipe, pipes.MapDataPipe))


def _ranks():
    """How many ranks there are, and which one this is."""
    dist = sys.modules.get("taper.distributed")
    return (dist.get_world_size(), dist.get_rank()) if dist is not None and dist.is_initialized() else (1, 0)


def _share_pipe(worker_init_fn, world_size, rank, base_seed, worker_id):
    """Each worker of each rank reads its share of a pipe; the seeds are the same for all, so that the shares are of one
    order."""
    from taper.utils.data.dataloader import _sharding_worker_init_fn
    from taper.utils.data.graph_settings import apply_random_seed

    apply_random_seed(_worker_info.dataset, _C.Generator().manual_seed(base_seed))
    _sharding_worker_init_fn(worker_init_fn, world_size, rank, worker_id)


class Work:
    """What all workers of a loader have in common; it travels to each of them."""

    def __init__(self, loader, base_seed):
        self.kind, self.dataset, self.collate_fn, self.drop_last = (
            loader._dataset_kind,
            loader.dataset,
            loader.collate_fn,
            loader.drop_last,
        )
        self.auto_collation, self.init_fn, self.workers, self.base_seed = (
            loader._auto_collation,
            loader.worker_init_fn,
            loader.num_workers,
            base_seed,
        )
        if _is_pipe(self.dataset):
            self.init_fn = partial(_share_pipe, self.init_fn, *_ranks(), base_seed)

    def fetcher(self):
        from taper.utils.data.dataloader import _DatasetKind

        return _DatasetKind.create_fetcher(
            self.kind, self.dataset, self.auto_collation, self.collate_fn, self.drop_last
        )


def _prepare(work, worker_id):
    """Signals, threads and seeds, as PyTorch's workers have them."""
    import random
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the loader's process gets it too, and ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _C.set_num_threads(1)
    _C._keep_freed_memory()
    seed = work.base_seed + worker_id
    random.seed(seed)
    _C.default_generator.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(_generate_state(work.base_seed, worker_id))
    global _worker_info
    _worker_info = WorkerInfo(id=worker_id, num_workers=work.workers, seed=seed, dataset=work.dataset)


def _read_tasks(channel, tasks, parent):
    """Takes tasks off the channel as they come, so that the loader never waits to send one; None at the end."""
    from multiprocessing.connection import wait

    try:
        while True:
            while not wait([channel], 1.0):
                if os.getppid() != parent:
                    return
            tasks.put(channel.receive())
    except (EOFError, OSError):
        pass
    finally:
        tasks.put(None)


def _failure(where):
    """The exception at hand, such that it can be sent: of a type that the other side knows."""
    import pickle

    wrapper = ExceptionWrapper(where=where)
    try:
        pickle.dumps(wrapper)
    except Exception:
        wrapper.exc_type = RuntimeError
    return wrapper


class _Worker:
    """Reads batches, and keeps what has to be told of its state."""

    def __init__(self, work, worker_id):
        self.work, self.where, self.iterable = work, f"in DataLoader worker process {worker_id}", work.kind == 1
        self.fetcher = self.broken = self.told = self.start = None
        self.read = (
            0  # batches of this epoch, told with those of an iterable dataset, where each worker counts for itself
        )

    def begin(self, saved=None, init=None):
        """A new epoch, or one that is gone on with. What fails here is reported in place of the first batch."""
        try:
            if init is not None:
                init()
            self._go_on(saved) if saved else self._start()
            self.broken = None
        except Exception:
            self.broken = _failure(self.where)

    def _start(self):
        self.read, self.start = 0, numbers_state() if self.iterable else None
        self.fetcher = self.work.fetcher()

    def _go_on(self, saved):
        dataset, self.read, self.start = saved.get("dataset"), saved.get("read", 0), saved.get("start")
        if dataset is not None:
            tell_dataset(self.work.dataset, dataset)
        if self.start is not None:
            set_numbers_state(self.start)
        self.fetcher = self.work.fetcher()
        if dataset is not None:
            tell_iterator(self.fetcher, dataset)
        else:
            for _ in range(self.read):
                self.fetcher.fetch(saved["index"])
        if "numbers" in saved:
            set_numbers_state(saved["numbers"])

    def state(self, index):
        """What has changed since the last batch."""
        state, numbers, dataset = {}, numbers_state(), dataset_state(self.fetcher)
        if self.told is None or not same_numbers(numbers, self.told):
            state["numbers"] = self.told = numbers
        if dataset is not None:
            state["dataset"] = dataset
        if self.iterable:
            state.update(read=self.read, index=index, start=self.start)
        return state

    def answer(self, index):
        """("data", batch, state), ("end", None, state) or ("error", what went wrong, None)"""
        if self.broken is not None:
            return "error", self.broken, None
        try:
            data = self.fetcher.fetch(index)
            self.read += 1
            return "data", data, self.state(index)
        except Exception as error:
            if isinstance(error, StopIteration) and self.iterable:
                return "end", None, self.state(index)
            return "error", _failure(self.where), None


def _serve(work, channel, tasks, saved, worker_id):
    worker = _Worker(work, worker_id)
    worker.begin(saved, work.init_fn and (lambda: work.init_fn(worker_id)))
    while (task := tasks.get()) is not None:
        what, index = task
        if what == "epoch":
            worker.begin()
            worker.told = None
            channel.send(("epoch", None, worker.broken is None and worker.state(None)))
            continue
        reply = worker.answer(index)
        try:
            channel.send(reply)
        except EOFError:
            return
        except Exception:  # a batch that cannot be pickled
            channel.send(("error", _failure(worker.where), None))
        del reply  # its memory may go before the next batch is read


def worker_main(work, sock, others, worker_id, parent, saved):
    """The process's whole life. `others` are the ends of other workers' channels that came along in a fork."""
    for end in others:
        end.close()
    _prepare(work, worker_id)
    from queue import SimpleQueue
    from threading import Thread
    from taper.utils.data._utils.channel import Channel

    channel, tasks = Channel(sock), SimpleQueue()
    Thread(target=_read_tasks, args=(channel, tasks, parent), daemon=True).start()
    try:
        _serve(work, channel, tasks, saved, worker_id)
    except EOFError:
        pass
    finally:
        channel.close()
