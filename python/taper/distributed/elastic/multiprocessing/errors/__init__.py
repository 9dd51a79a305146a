"""torch.distributed.elastic.multiprocessing.errors: a rank leaves the reason of its failure in the file that its
launcher named."""

import functools
import json
import os
import time
import traceback

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]


class ChildFailedError(Exception):
    """A job's process has failed."""

    def __init__(self, name, failures):
        self.name, self.failures = name, failures
        super().__init__(f"{name} FAILED: {failures}")


class ProcessFailure:
    """How a process failed: its place, exit status, and what it left in its error file."""

    def __init__(self, local_rank, pid, exitcode, error_file="<N/A>", message=""):
        self.local_rank, self.pid, self.exitcode, self.error_file, self.message, self.timestamp = (
            local_rank,
            pid,
            exitcode,
            error_file,
            message,
            int(time.time()),
        )

    def signal_name(self):
        import signal

        return signal.Signals(-self.exitcode).name if self.exitcode < 0 else "<N/A>"

    def __repr__(self):
        return (
            f"ProcessFailure(local_rank={self.local_rank}, pid={self.pid}, exitcode={self.exitcode}, "
            f"message={self.message!r})"
        )


class ErrorHandler:
    """Leaves exceptions where the launcher finds them."""

    def initialize(self):
        """Has crashes of the interpreter print their stack."""
        import faulthandler

        faulthandler.enable(all_threads=True)

    def record_exception(self, e):
        write(e)


def get_error_handler():
    return ErrorHandler()


def write(error):
    """Leaves the reason in the launcher's file; the first one stays."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or os.path.exists(path):
        return
    said = "".join(traceback.format_exception_only(type(error), error)).strip()
    about = {
        "message": said,
        "extraInfo": {
            "py_callstack": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
            "timestamp": str(int(time.time())),
        },
    }
    try:
        with open(path, "x", encoding="utf-8") as file:
            json.dump({"message": about}, file)
    except OSError:
        pass  # the job fails with its own reason, not with ours


def record(fn, error_handler=None):
    """A main function whose exceptions reach the launcher."""

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        try:
            return fn(*args, **kwargs)
        except SystemExit:
            raise
        except BaseException as error:
            (error_handler or get_error_handler()).record_exception(error)
            raise

    return wrapper
