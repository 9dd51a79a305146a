"""Stores: keys and values that all processes of a job see."""
from datetime import timedelta

from taper import _C


def _seconds(timeout, default=None):
    if timeout is None:
        return default
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


class QueueEmptyError(_C._DistStoreError):
    """A queue has nothing in it."""


class Store:
    """The base of all stores. `_s` is the library's."""

    _s = None

    def set(self, key, value):
        self._s.set(key, value)

    def get(self, key):
        return self._s.get(key)

    def add(self, key, amount):
        return self._s.add(key, amount)

    def append(self, key, value):
        self._s.append(key, value)

    def compare_set(self, key, expected_value, desired_value):
        return self._s.compare_set(key, expected_value, desired_value)

    def wait(self, keys, timeout=None):
        """Waits until all keys are there."""
        seconds = _seconds(timeout, -1.0)
        for key in [keys] if isinstance(keys, str) else keys:
            self._s.wait(key, seconds)

    def check(self, keys):
        return all(self._s.check(key) for key in keys)

    def delete_key(self, key):
        return self._s.delete(key)

    def num_keys(self):
        return self._s.count()

    def multi_get(self, keys):
        return [self.get(key) for key in keys]

    def multi_set(self, keys, values):
        for key, value in zip(keys, values):
            self.set(key, value)

    # A queue's values are under numbers; how many came and went are counts beside them. Each number is taken once, whoever asks.
    def queue_push(self, key, value):
        """Puts a value at the end of a queue."""
        self.set(f"{key}/queue/{self.add(f'{key}/came', 1)}", value)

    def queue_len(self, key):
        return max(self.add(f"{key}/came", 0) - self.add(f"{key}/went", 0), 0)

    def queue_pop(self, key, block=True):
        """The first value of a queue; waits for one, or fails if not to block."""
        if not block and not self.queue_len(key):
            raise QueueEmptyError("queue is empty")
        place = f"{key}/queue/{self.add(f'{key}/went', 1)}"
        try:
            value = self.get(place)
        except BaseException:
            self.add(f"{key}/went", -1)
            raise
        self.delete_key(place)
        return value

    def barrier(self, key, world_size, timeout=None):
        """Waits until so many have called it with this key."""
        if self.add(f"{key}/came", 1) % world_size == 0:
            self.set(f"{key}/all", "1")
        self.wait([f"{key}/all"], timeout)

    def has_extended_api(self):
        return True

    def set_timeout(self, timeout):
        self._s.timeout = _seconds(timeout)

    @property
    def timeout(self):
        return timedelta(seconds=self._s.timeout)

    def clone(self):
        """Another object for the same store."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other


class TCPStore(Store):
    """A store that one process serves and others connect to."""

    def __init__(self, host_name, port=29500, world_size=None, is_master=False, timeout=timedelta(seconds=300), wait_for_workers=True,
                 multi_tenant=False, master_listen_fd=None, use_libuv=True):
        self.libuvBackend = use_libuv
        served = _served.get(port) if multi_tenant and is_master else None
        self._s = served or _C._store_tcp(host_name, port, is_master, _seconds(timeout, 300.0))
        if multi_tenant and is_master:
            _served[self._s.port] = self._s
        self.host, self.port = host_name, self._s.port
        if world_size is not None and world_size > 0 and wait_for_workers:
            self._wait_for_workers(world_size, is_master)

    def _wait_for_workers(self, world_size, is_master):
        """The server waits until everybody is there, the others until it knows."""
        came = self._s.add("taper/workers", 1)
        if came >= world_size:
            self._s.set("taper/all", "1")
        self._s.wait("taper/all", -1.0)

    def __repr__(self):
        return f"{type(self).__name__}({self.host}, {self.port})"


_served = {}  # stores that several objects of this process share, by port


class FileStore(Store):
    """A store in a file that all processes reach."""

    def __init__(self, file_name, world_size=-1):
        self.path = file_name
        self._s = _C._store_file(file_name, max(world_size, 0))


class HashStore(Store):
    """A store within this process."""

    def __init__(self):
        self._s = _C._store_hash()


class PrefixStore(Store):
    """Another store's keys under a prefix."""

    def __init__(self, prefix, store):
        self.underlying_store = store
        self._s = _C._store_prefix(prefix, store._s)


class _Wrapped(Store):
    """A store that the library made."""

    def __init__(self, s):
        self._s = s
