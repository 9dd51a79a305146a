"""Stores: keys and values that all processes of a job see."""

from datetime import timedelta

from taper import _C


def _seconds(timeout, default=None):
    if timeout is None:
        return default
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


class QueueEmptyError(_C._DistStoreError):
    """A queue has nothing in it."""


def _bytes(value):
    return value.encode() if isinstance(value, str) else value


def _needs(method):
    """A method of stores that the library keeps; a program's own store, which has none of it, does without."""
    from functools import wraps

    @wraps(method)
    def checked(self, *args, **kwargs):
        if self._s is None:
            raise NotImplementedError("Not implemented.")
        return method(self, *args, **kwargs)

    return checked


class Store:
    """The base of all stores. `_s` is the library's; a class of a program's own has none, and answers for itself."""

    _s = None

    @_needs
    def set(self, key, value):
        self._s.set(key, value)

    @_needs
    def get(self, key):
        return self._s.get(key)

    @_needs
    def add(self, key, amount):
        return self._s.add(key, amount)

    @_needs
    def append(self, key, value):
        self._s.append(key, value)

    @_needs
    def compare_set(self, key, expected_value, desired_value):
        return self._s.compare_set(key, expected_value, desired_value)

    @_needs
    def wait(self, keys, timeout=None):
        """Waits until all keys are there."""
        seconds = _seconds(timeout, -1.0)
        for key in [keys] if isinstance(keys, str) else keys:
            self._s.wait(key, seconds)

    @_needs
    def check(self, keys):
        return all(self._s.check(key) for key in keys)

    @_needs
    def delete_key(self, key):
        return self._s.delete(key)

    @_needs
    def num_keys(self):
        return self._s.count()

    @_needs
    def list_keys(self):
        """The keys that are there, in no order."""
        return self._s.keys()

    @_needs
    def multi_get(self, keys):
        return [self.get(key) for key in keys]

    @_needs
    def multi_set(self, keys, values):
        for key, value in zip(keys, values):
            self.set(key, value)

    # ---- Queues: a key is there as long as its queue holds something ----
    @_needs
    def queue_push(self, key, value):
        """Puts a value at the end of a queue."""
        self._s.queue_push(key, value)

    @_needs
    def queue_len(self, key):
        return self._s.queue_length(key)

    @_needs
    def queue_pop(self, key, block=True):
        """The first value of a queue; waits for one, or fails if not to block."""
        try:
            return self._s.queue_pop(key, -1.0 if block else 0.0)
        except _C._DistStoreError as error:
            if block:
                raise
            raise QueueEmptyError(f"queue is empty: {key}") from error

    def barrier(self, key, world_size, timeout=None):
        """Waits until so many have called it with this key."""
        if self.add(f"{key}/came", 1) % world_size == 0:
            self.set(f"{key}/all", "1")
        try:
            self.wait([f"{key}/all"], timeout)
        except _C._DistStoreError as error:
            raise _C._DistStoreError(
                f"barrier timeout: {self.add(f'{key}/came', 0)} of {world_size} have come to the barrier {key} "
                f"({error})"
            ) from error

    def has_extended_api(self):
        return self._s is not None

    @_needs
    def set_timeout(self, timeout):
        self._s.timeout = _seconds(timeout)

    @property
    def timeout(self):
        return timedelta(seconds=self._s.timeout if self._s is not None else 300.0)

    def clone(self):
        """Another object for the same store."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other


class TCPStore(Store):
    """A store that one process serves and others connect to."""

    def __init__(
        self,
        host_name,
        port=29500,
        world_size=None,
        is_master=False,
        timeout=timedelta(seconds=300),
        wait_for_workers=True,
        multi_tenant=False,
        master_listen_fd=None,
        use_libuv=True,
    ):
        if world_size == 0:
            raise ValueError("TCPStore world size cannot be 0")
        self.libuvBackend = use_libuv
        if is_master and _agent_serves(port):
            is_master = False
        if master_listen_fd is not None and is_master:
            import os

            os.close(master_listen_fd)  # it held the port for us; the server opens sockets of its own there
        served = _served.get(port) if multi_tenant and is_master else None
        self._s = served or _C._store_tcp(host_name, port, is_master, _seconds(timeout, 300.0))
        if multi_tenant and is_master:
            _served[self._s.port] = self._s
        self.host, self.port = host_name, self._s.port
        if world_size is not None and world_size > 0 and wait_for_workers:
            self._wait_for_workers(world_size, is_master, _seconds(timeout, 300.0))

    def _wait_for_workers(self, world_size, is_master, seconds):
        """The server waits until everybody is there."""
        import time

        until, pause = time.monotonic() + seconds, 0.001
        came = self._s.add("init/", 1)
        while is_master and came < world_size:
            if time.monotonic() > until:
                raise _C._DistStoreError(
                    f"Timed out after {int(seconds) + 1} seconds waiting for clients. {came}/{world_size} clients "
                    "joined."
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.1)
            came = self._s.add("init/", 0)

    def __repr__(self):
        return f"{type(self).__name__}({self.host}, {self.port})"


def _agent_serves(port):
    """Does the process that launched this one serve a store at this port already?"""
    import os

    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "1" and os.environ.get("MASTER_PORT") == str(port)


_served = {}  # stores that several objects of this process share, by port


class FileStore(Store):
    """A store in a file that all processes reach. One of its keys counts who has it open."""

    def __init__(self, file_name, world_size=-1):
        self.path = file_name
        self._s = _C._store_file(file_name, max(world_size, 0))


class HashStore(Store):
    """A store within this process."""

    def __init__(self):
        self._s = _C._store_hash()


class PrefixStore(Store):
    """Another store's keys under a prefix."""

    def __new__(cls, prefix=None, store=None):
        own = isinstance(store, Store) and store._s is None
        return object.__new__(_PrefixOfPython if cls is PrefixStore and own else cls)

    def __init__(self, prefix, store):
        if not isinstance(store, Store):
            raise ValueError(f"PrefixStore: expected a store to put the prefix '{prefix}' into, got {store}")
        self.underlying_store, self._prefix = store, prefix
        if store._s is not None:
            self._s = _C._store_prefix(prefix, store._s)

    @property
    def _underlying_non_prefix_store(self):
        store = self.underlying_store
        while isinstance(store, PrefixStore):
            store = store.underlying_store
        return store


class _PrefixOfPython(PrefixStore):
    """A prefix store over a store that a program wrote in Python: its methods get bytes."""

    def _key(self, key):
        return f"{self._prefix}/{key}"

    def set(self, key, value):
        self.underlying_store.set(self._key(key), _bytes(value))

    def get(self, key):
        return self.underlying_store.get(self._key(key))

    def add(self, key, amount):
        return self.underlying_store.add(self._key(key), amount)

    def compare_set(self, key, expected_value, desired_value):
        return self.underlying_store.compare_set(self._key(key), _bytes(expected_value), _bytes(desired_value))

    def wait(self, keys, timeout=None):
        self.underlying_store.wait(
            [self._key(key) for key in ([keys] if isinstance(keys, str) else keys)],
            *([timeout] if timeout is not None else []),
        )

    def check(self, keys):
        return self.underlying_store.check([self._key(key) for key in keys])

    def delete_key(self, key):
        return self.underlying_store.delete_key(self._key(key))

    def num_keys(self):
        return self.underlying_store.num_keys()

    def has_extended_api(self):
        return self.underlying_store.has_extended_api()

    def _missing(self, name):
        """Does the store's class leave a method to the base, but has set and get to do without it?"""
        theirs = type(self.underlying_store)
        return getattr(theirs, name) is getattr(Store, name) and theirs.set is not Store.set

    def append(self, key, value):
        if not self._missing("append"):
            return self.underlying_store.append(self._key(key), _bytes(value))
        return self.set(key, (self.get(key) or b"") + _bytes(value))

    def multi_get(self, keys):
        if not self._missing("multi_get"):
            return self.underlying_store.multi_get([self._key(key) for key in keys])
        return [self.get(key) for key in keys]

    def multi_set(self, keys, values):
        if not self._missing("multi_set"):
            return self.underlying_store.multi_set(
                [self._key(key) for key in keys], [_bytes(value) for value in values]
            )
        for key, value in zip(keys, values):
            self.set(key, value)


class _Wrapped(Store):
    """A store that the library made."""

    def __init__(self, s):
        self._s = s
