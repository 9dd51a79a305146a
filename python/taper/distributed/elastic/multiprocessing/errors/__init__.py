"""torch.distributed.elastic.multiprocessing.errors: a rank leaves the reason of its failure in the file that its launcher named."""
import functools
import json
import os
import time
import traceback

__all__ = ["ChildFailedError", "record"]


class ChildFailedError(Exception):
    """A job's process has failed."""

    def __init__(self, name, failures):
        self.name, self.failures = name, failures
        super().__init__(f"{name} FAILED: {failures}")


def write(error):
    """Leaves the reason in the launcher's file; the first one stays."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or os.path.exists(path):
        return
    said = "".join(traceback.format_exception_only(type(error), error)).strip()
    about = {"message": said, "extraInfo": {"py_callstack": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
                                            "timestamp": str(int(time.time()))}}
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
            write(error)
            raise
    return wrapper
