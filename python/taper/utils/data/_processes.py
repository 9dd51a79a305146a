"""A loader's epoch read by worker processes.

Each worker has a channel of its own and gets batches in turn, so many ahead as prefetch_factor says; what it reads
waits in its channel until its turn comes. A worker that dies is seen by its process and named with what ended it.
Nothing is left running when the iterator goes."""

import os
import signal
import socket
import time
import weakref
from collections import deque
from multiprocessing.connection import wait

from taper.utils.data._utils.channel import Channel
from taper.utils.data._utils.worker import Work, worker_main
from taper.utils.data.dataloader import _BaseDataLoaderIter

_PATIENCE = 5.0  # seconds that workers get to finish what they are at when they are no longer needed


class _Handle:
    """A worker as the loader sees it."""

    def __init__(self, process, channel):
        self.process, self.channel = process, channel
        self.marks = deque()  # one per batch that it has to read: where the sampler stood
        self.ended = False  # its part of an iterable dataset is read


def _start(context, work, saved):
    """Starts all workers; saved is None or one state per worker."""
    handles = []
    forks = context.get_start_method() == "fork"
    try:
        for worker_id in range(work.workers):
            ours, theirs = socket.socketpair()
            others = [handle.channel.socket for handle in handles] + [ours] if forks else []
            process = context.Process(
                target=worker_main,
                daemon=True,
                args=(work, theirs, others, worker_id, os.getpid(), saved and saved[worker_id]),
            )
            try:
                process.start()
            except BaseException:
                ours.close()
                raise
            finally:
                theirs.close()
            handles.append(_Handle(process, Channel(ours)))
    except BaseException:
        _stop(handles, os.getpid())
        raise
    return handles


def _stop(handles, owner, patience=_PATIENCE):
    """Ends the workers: politely, then not. A process that was forked from the loader's leaves them alone."""
    if os.getpid() != owner:
        return
    for handle in handles:
        handle.channel.close()
    until = time.monotonic() + patience
    for handle in handles:
        handle.process.join(max(0.0, until - time.monotonic()))
        for end in (handle.process.terminate, handle.process.kill):
            if handle.process.is_alive():
                end()
                handle.process.join(1.0)
    handles.clear()


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Reads batches in worker processes, ahead of the program."""

    def __init__(self, loader):
        import multiprocessing

        self._context = loader.multiprocessing_context or multiprocessing.get_context()
        if self._context.get_start_method() != "fork":
            import taper.multiprocessing  # noqa: F401  (tensors of the dataset are shared instead of copied)
        self._handles, self._in_order, self._prefetch = [], loader.in_order, max(1, loader.prefetch_factor)
        super().__init__(loader)

    @property
    def _workers(self):
        """The processes."""
        return [handle.process for handle in self._handles]

    def _begin(self, loader):
        saved = super()._begin(loader)
        position, count = self._position, self._num_workers
        # In another number of workers the order is the same; what they draw for themselves is not.
        states = saved["workers"] if saved and len(saved["workers"] or ()) == count else None
        if not self._handles:
            self._handles += _start(self._context, Work(loader, self._base_seed), states)
            self._owner = os.getpid()
            self._finalizer = weakref.finalize(self, _stop, self._handles, self._owner)
            position.workers = states or [{} for _ in range(count)]
        else:
            position.workers = self._next_epoch()
        position.turn = saved["turn"] if states else 0
        self._turn, self._exhausted = position.turn, False
        for handle, state in zip(self._handles, position.workers):
            handle.ended = bool(state.get("ended"))
        for _ in range(self._prefetch):
            for i in range(count):
                self._send_task(self._handles[(self._turn + i) % count])
        return saved

    def _next_epoch(self):
        """Has persistent workers begin again; what they read of the last epoch is thrown away. Their states are
        returned."""
        for handle in self._handles:
            handle.marks.clear()
            self._send(handle, ("epoch", None))
        states = []
        for handle in self._handles:
            while (reply := self._receive(handle))[0] != "epoch":
                pass
            states.append(reply[2])
        return states

    def _send(self, handle, task):
        try:
            handle.channel.send(task)
        except EOFError:
            self._mourn()

    def _send_task(self, handle):
        if self._exhausted or handle.ended:
            return
        try:
            index = next(self._order)
        except StopIteration:
            self._exhausted = True
            return
        handle.marks.append(self._order.mark())
        self._send(handle, ("fetch", index))

    def _wait(self, handles):
        """The handles that have a batch ready, after waiting for one of them."""
        until = time.monotonic() + self._timeout if self._timeout else None
        channels = {handle.channel: handle for handle in handles}
        sentinels = [handle.process.sentinel for handle in self._handles]
        while True:
            ready = wait([*channels, *sentinels], until and max(0.0, until - time.monotonic()))
            found = [channels[channel] for channel in ready if channel in channels]
            if found:
                return found
            if ready:
                self._mourn()
            if until and time.monotonic() >= until:
                self._shutdown_workers(0)
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")

    def _receive(self, handle):
        self._wait([handle])
        try:
            return handle.channel.receive()
        except EOFError:
            self._mourn()

    def _mourn(self):
        """Says which workers died of what; the others are ended."""
        ended = wait([handle.process.sentinel for handle in self._handles], 1.0)
        words = []
        for worker_id, handle in enumerate(self._handles):
            if handle.process.sentinel in ended:
                handle.process.join(1.0)  # until its status can be had
            code, pid = handle.process.exitcode, handle.process.pid
            if code is not None and code < 0:
                words.append(
                    f"DataLoader worker (pid {pid}) is killed by signal: {signal.strsignal(-code)}. (It was worker "
                    f"{worker_id} of {self._num_workers}.)"
                )
            elif code is not None:
                words.append(
                    f"DataLoader worker (pid {pid}) exited unexpectedly with exit code {code}. Details are lost due "
                    "to multiprocessing. Rerunning with num_workers=0 may give better error trace. (It was worker "
                    f"{worker_id} of {self._num_workers}.)"
                )
        self._shutdown_workers(0)
        raise RuntimeError("\n".join(words) or "DataLoader workers exited unexpectedly")

    def _next_handle(self):
        """The worker whose batch comes next; None when all is read."""
        if not self._handles:
            return None
        if not self._in_order:
            at_work = [handle for handle in self._handles if handle.marks]
            return self._wait(at_work)[0] if at_work else None
        for _ in self._handles:
            handle = self._handles[self._turn]
            if handle.marks:
                return handle
            self._turn = (self._turn + 1) % len(self._handles)
        return None

    def _next_data(self):
        while (handle := self._next_handle()) is not None:
            what, data, state = self._receive(handle)
            mark, worker_id = handle.marks.popleft(), self._handles.index(handle)
            if what == "end":
                handle.marks.clear()
                handle.ended = True
                self._position.workers[worker_id].update(state, ended=True)
                continue
            self._turn = self._position.turn = (worker_id + 1) % len(self._handles)
            self._send_task(handle)
            if what == "error":
                data.reraise()
            self._position.mark = mark
            self._position.workers[worker_id].update(state)
            return data
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _shutdown_workers(self, patience=_PATIENCE):
        if self._finalizer.detach():
            _stop(self._handles, self._owner, patience)
