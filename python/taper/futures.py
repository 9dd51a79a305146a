"""torch.futures: values that are not there yet."""

import logging
from threading import Condition
from types import GenericAlias

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A value to come: of an asynchronous collective, of `then`, or one that set_result brings."""

    __class_getitem__ = classmethod(GenericAlias)  # annotations say Future[Tensor]

    def __init__(self, *, devices=None):
        self._changed, self._callbacks = Condition(), []
        self._ready = self._failed = False
        self._value = self._ask = self._get = None

    @classmethod
    def _of(cls, ask, get):
        """A future that asks whether its value is there, and gets it by waiting: callbacks run when somebody does."""
        future = cls()
        future._ask, future._get = ask, get
        return future

    def done(self):
        if not self._ready and self._ask is not None and self._ask():
            self._settle()
        return self._ready

    def _settle(self):
        """Gets the value, if it is one that has to be got."""
        if self._ready or self._get is None:
            return
        get, self._get = self._get, None
        try:
            self.set_result(get())
        except Exception as error:
            self.set_exception(error)

    def wait(self):
        """The value, or the error, once it is there."""
        self._settle()
        with self._changed:
            while not self._ready:
                self._changed.wait()
        try:
            return self.value()
        finally:
            self = None  # an error's frames would hold the future, which holds the error

    def value(self):
        if not self._ready:
            self._settle()
        if not self._ready:
            raise RuntimeError("Future is not completed")
        try:
            if self._failed:
                raise self._value
            return self._value
        finally:
            self = None

    def _finish(self, value, failed):
        with self._changed:
            if self._ready:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future can only be marked "
                    "completed once."
                )
            self._value, self._failed, self._ready = value, failed, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            self._run(callback)

    def _run(self, callback):
        """Calls it. What it raises is its own, and nobody waits for it: it is logged, as PyTorch does."""
        try:
            callback(self)
        except Exception as error:
            logging.getLogger("torch").error(
                "Got the following error when running the callback: %s: %s", type(error).__name__, error
            )

    def __reduce__(self):
        raise RuntimeError("Can not pickle torch.futures.Future")

    def set_result(self, result):
        self._finish(result, False)

    def set_exception(self, result):
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(result, True)

    def add_done_callback(self, callback):
        """Calls callback(self) once the value is there."""
        with self._changed:
            if not self._ready:
                self._callbacks.append(callback)
                return
        self._run(callback)

    def then(self, callback):
        """A future of callback(self)."""
        if self._get is not None:  # nobody brings the value: whoever wants the next one gets this one

            def get():
                self._settle()
                return _called(callback, self)

            return Future._of(self.done, get)
        following = Future()

        def go_on(future):
            try:
                result = _called(callback, future)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(result)

        self.add_done_callback(go_on)
        return following


def _called(callback, future):
    """callback(future); what it raises becomes the RuntimeError of the future that follows, with its text."""
    try:
        return callback(future)
    except RuntimeError:
        raise
    except Exception as error:
        raise RuntimeError(
            f"Got the following error when running the callback: {type(error).__name__}: {error}"
        ) from error


def collect_all(futures):
    """A future of the list of futures, all of them done."""
    futures = list(futures)
    if any(future is None for future in futures):
        raise RuntimeError("Future can't be None")

    def get():
        for future in futures:
            try:
                future.wait()
            except Exception:  # whoever asks that one will see it
                pass
        return futures

    return Future._of(lambda: all([future.done() for future in futures]), get)


def wait_all(futures):
    """The values of all."""
    return [future.wait() for future in collect_all(futures).wait()]
