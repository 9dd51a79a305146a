"""torch.multiprocessing.spawn: so many processes that run one function; when one fails, the others are ended and its
traceback comes back."""

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import time
import traceback

ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"
__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):
    """A process failed."""

    def __init__(self, msg, error_index, error_pid):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, error_pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """It raised an exception, whose traceback is in the message."""


class ProcessExitedException(ProcessException):
    """It exited with a status or was ended by a signal."""

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _end_with_parent(parent):
    """Has the system interrupt this process when its parent ends."""
    import ctypes

    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)
    if os.getppid() != parent:  # it ended before that
        os.kill(os.getpid(), signal.SIGINT)


def _wrap(fn, i, args, errors, parent):
    if parent is not None:
        _end_with_parent(parent)
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent has it too
    except Exception:
        errors.send_bytes(pickle.dumps(traceback.format_exc()))
        sys.exit(1)


class ProcessContext:
    """The processes that were started; join() waits for them."""

    def __init__(self, processes, errors):
        self.processes, self._errors = processes, errors
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self):
        return [process.pid for process in self.processes]

    def _join_all(self, timeout):
        until = time.monotonic() + timeout
        for one in self.processes:
            one.join(max(0.0, until - time.monotonic()))
        return [one for one in self.processes if one.is_alive()]

    def join(self, timeout=None, grace_period=None):
        """True when all have ended well, False if some are still at it after the timeout. When one has failed, the
        others get grace_period seconds, are ended, and an exception tells what happened."""
        if not self.sentinels:
            return True
        for ended in multiprocessing.connection.wait(list(self.sentinels), timeout):
            i = self.sentinels.pop(ended)
            self.processes[i].join()
            if self.processes[i].exitcode:
                self._end_others(grace_period or 0)
                self._raise(i)
        return not self.sentinels

    def _end_others(self, grace_period):
        """First they may end by themselves, then they are asked to, then they must."""
        for left in self._join_all(grace_period):
            left.terminate()
        for left in self._join_all(30):
            left.kill()
            left.join()

    def _raise(self, i):
        process = self.processes[i]
        if self._errors[i].poll():
            try:
                text = pickle.loads(self._errors[i].recv_bytes())
            except EOFError:  # it ended without an exception
                text = None
            if text is not None:
                raise ProcessRaisedException(
                    f"\n\n-- Process {i:d} terminated with the following error:\n{text}", i, process.pid
                )
        code = process.exitcode
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            raise ProcessExitedException(f"process {i:d} terminated with signal {name}", i, process.pid, code, name)
        raise ProcessExitedException(f"process {i:d} terminated with exit code {code:d}", i, process.pid, code)


class SpawnContext(ProcessContext):
    """What spawn() gives."""


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Starts nprocs processes that call fn(i, *args), and waits for them unless join is False: then it gives their
    ProcessContext."""
    context = multiprocessing.get_context(start_method)
    processes, errors = [], []
    parent = os.getpid() if start_method != "forkserver" else None  # there the server is the parent
    for i in range(nprocs):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_wrap, args=(fn, i, args, theirs, parent), daemon=daemon)
        process.start()
        theirs.close()
        processes.append(process)
        errors.append(ours)
    started = ProcessContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Starts nprocs fresh processes that call fn(i, *args), and waits for them unless join is False."""
    if start_method != "spawn":
        import warnings

        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n"
            "\t\t torch.multiprocessing.start_processes(fn, args, nprocs, join, daemon, "
            f"start_method={start_method!r})",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
