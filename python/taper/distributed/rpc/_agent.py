"""What carries remote calls: one connection from each worker to each one it calls, and a thread per request.

A frame is a header (length, number, kind, autograd context, message) and a pickle. CALL is answered by DONE or FAILED
with the same number; MAKE, KEEP and DROP count the references to a value that its owner holds for others, and are
handled in the order in which they come. Nothing is unpickled before the other side has shown that it knows the job's
secret (`_C._dist_prove`), and the word by which a worker's callers are told from those of another job."""

import hmac
import json
import os
import pickle
import queue
import select
import socket
import struct
import threading
import time
import traceback

from taper import _C
from taper.distributed.rpc import _pickles
from taper.futures import Future

CALL, DONE, FAILED, MAKE, KEEP, DROP = range(6)
_HEADER = struct.Struct("!QQBqq")
_HELLO = struct.Struct("!32sI")
_PROOF = 10.0  # seconds that a connection has to show that it is of this job
_STRANGERS = 128  # connections that may be at it at the same time


class WorkerInfo:
    """A worker's name and number."""

    def __init__(self, name, id):
        self.name, self.id = name, id

    def __repr__(self):
        return f"WorkerInfo(id={self.id}, name={self.name})"

    def __eq__(self, other):
        return isinstance(other, WorkerInfo) and (self.name, self.id) == (other.name, other.id)

    def __hash__(self):
        return hash((self.name, self.id))


def _read(connection, n):
    data = bytearray(n)
    at, view = 0, memoryview(data)
    while at < n:
        got = connection.recv_into(view[at:])
        if not got:
            raise ConnectionError("the connection was closed")
        at += got
    return data


class _Frames:
    """A connection that takes whole frames from several threads."""

    def __init__(self, connection):
        self.connection, self.lock = connection, threading.Lock()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, number, kind, data=b"", context=-1, message=-1):
        with self.lock:
            self.connection.sendall(
                _HEADER.pack(len(data), number, kind, context, message) + (data if len(data) < 65536 else b"")
            )
            if len(data) >= 65536:
                self.connection.sendall(data)

    def receive(self):
        length, number, kind, context, message = _HEADER.unpack(_read(self.connection, _HEADER.size))
        return number, kind, _read(self.connection, length), context, message


class _Link:
    """Our calls to one worker."""

    def __init__(self, agent, peer, address, word):
        self.agent, self.peer, self.pending, self.number, self.lock = agent, peer, {}, 0, threading.Lock()
        connection = socket.create_connection(address, timeout=agent.timeout or None)
        connection.settimeout(None)
        try:
            _C._dist_prove(connection.fileno(), False, _PROOF)
        except RuntimeError as error:
            connection.close()
            raise RuntimeError(f"{agent.info.name} cannot call {peer}: {error}") from None
        connection.sendall(_HELLO.pack(word, agent.info.id))
        self.frames = _Frames(connection)
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, kind, data=b"", context=-1, message=-1, timeout=0.0):
        """Sends a frame; the future of its answer."""
        future = Future()
        with self.lock:
            self.number += 1
            number = self.number
            self.pending[number] = future, (time.monotonic() + timeout if timeout else None), timeout
        try:
            self.frames.send(number, kind, data, context, message)
        except OSError as error:
            self._settle(number, None, self._lost(error))
        return future

    def _lost(self, error):
        return RuntimeError(f"{self.agent.info.name}: the connection to {self.peer} was lost: {error}")

    def _settle(self, number, value, error):
        with self.lock:
            future = self.pending.pop(number, (None,))[0]
        if future is None:
            return
        finish = (lambda: future.set_result(value)) if error is None else (lambda: future.set_exception(error))
        if future._callbacks:
            threading.Thread(target=finish, daemon=True).start()  # they may call us again, and wait
        else:
            finish()

    def _listen(self):
        try:
            while not self.agent.closed:
                if select.select([self.frames.connection], [], [], 0.2)[0]:
                    number, kind, data, context, message = self.frames.receive()
                    self._answer(number, kind, data, context, message)
                now = time.monotonic()
                for number, (_, until, seconds) in list(self.pending.items()):
                    if until is not None and now > until:
                        self._settle(
                            number,
                            None,
                            RuntimeError(
                                f"RPCErr:1:RPC ran for more than set timeout ({seconds * 1000:.0f} ms) and will now "
                                "be marked with an error"
                            ),
                        )
        except (OSError, ValueError) as error:
            for number in list(self.pending):
                self._settle(number, None, self._lost(error))

    def _answer(self, number, kind, data, context, message):
        try:
            value = _pickles.loads(data, self.peer.id, context, message) if data else None
        except Exception as error:
            return self._settle(number, None, error)
        self._settle(number, *((value, None) if kind == DONE else (None, value.rebuilt())))


class RemoteException:
    """What a call raised elsewhere."""

    def __init__(self, error, where):
        self.kind, self.text = (
            type(error),
            f"On {where}:\n{error!r}\n{''.join(traceback.format_exception(type(error), error, error.__traceback__))}",
        )

    def __reduce__(self):
        return _rebuild_exception, (self.kind, self.text)

    def rebuilt(self):
        try:
            return self.kind(f"{self.kind.__name__}: {self.text}")
        except Exception:
            return RuntimeError(self.text)


def _rebuild_exception(kind, text):
    made = RemoteException.__new__(RemoteException)
    made.kind, made.text = kind, text
    return made


class _Held:
    """A value that others refer to."""

    def __init__(self):
        self.future, self.count = Future(), 1


class Agent:
    """This worker: its name, its links to the others, what it holds for them."""

    def __init__(self, name, rank, world, store, prefix, timeout):
        self.info, self.timeout, self.store, self.prefix, self.closed = (
            WorkerInfo(name, rank),
            timeout,
            store,
            prefix,
            False,
        )
        self.links, self.lock, self.held, self.serving, self.number = {}, threading.RLock(), {}, 0, 0
        self.dropped, self.strangers, self.met = queue.SimpleQueue(), [], {}
        self.door = threading.Lock()  # of strangers: they are answered while `lock` is held for a call to ourselves
        host = self._listen(world)
        self._meet(world, host)
        for work in (self._accept, self._drop_all):
            threading.Thread(target=work, daemon=True).start()

    # ---- Meeting ----
    def _listen(self, world):
        """Listens where the store says (a job on one machine: at loopback); the address by which others reach us."""
        where = getattr(getattr(self.store, "_s", None), "listen", "")
        address = "" if where in ("", "*") else where.split()[0]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = socket.create_server((address, 0), family=family, backlog=world + 16)
        return address or self._host()

    def _meet(self, world, host):
        key, self.word, self.workers, self.addresses = f"{self.prefix}/", os.urandom(32), [], []
        mine = self.info.name, host, self.listener.getsockname()[1], self.word.hex()
        self.store.set(f"{key}{self.info.id}", json.dumps(mine))
        for rank in range(world):
            name, host, port, word = json.loads(self.store.get(f"{key}{rank}"))
            if any(name == other.name for other in self.workers):
                raise RuntimeError(f"RPC worker name {name} is not unique.")
            self.workers.append(WorkerInfo(name, rank))
            self.addresses.append(((host, port), bytes.fromhex(word)))

    def _host(self):
        """Where we listen everywhere: the address of the interface towards the store, or the store's name where that is
        here under an address that only we know."""
        towards = getattr(self.store, "host", None) or socket.gethostname()
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((towards, 9))
                found = probe.getsockname()[0]
                return towards if found.startswith("127.") and not towards.startswith("127.") else found
        except OSError:
            return "127.0.0.1"

    def barrier(self, name, workers=None):
        """Waits for all workers, or for those."""
        self.store.set(f"{self.prefix}/{name}/{self.info.id}", b"1")
        for worker in self.workers if workers is None else workers:
            self.store.get(f"{self.prefix}/{name}/{worker.id}")

    def worker(self, to):
        if isinstance(to, WorkerInfo):
            return to
        for worker in self.workers:
            if to == (worker.id if isinstance(to, int) else worker.name):
                return worker
        raise RuntimeError(f"name:{self.info.name},rank:{self.info.id} could not find destination name {to}")

    # ---- Calling ----
    def link(self, rank):
        with self.lock:
            if rank not in self.links:
                self.links[rank] = _Link(self, self.workers[rank], *self.addresses[rank])
            return self.links[rank]

    def call(self, to, function, args=(), kwargs=None, timeout=-1.0):
        """The future of function(*args, **kwargs) over there."""
        data, context, message = _pickles.dumps((function, tuple(args or ()), kwargs or {}), to.id)
        return self.link(to.id).send(CALL, data, context, message, self.timeout if timeout < 0 else timeout)

    # ---- References ----
    def new_id(self):
        with self.lock:
            self.number += 1
            return self.info.id, self.number - 1

    def hold(self, id):
        with self.lock:
            return self.held.setdefault(id, _Held())

    def keep(self, owner, id):
        """One more refers to it; told before whoever that is can be told of it."""
        if owner == self.info:
            with self.lock:
                self.held[id].count += 1
        else:
            self.link(owner.id).send(KEEP, pickle.dumps(id)).wait()

    def _drop(self, id):
        with self.lock:
            held = self.held.get(id)
            if held is not None:
                held.count -= 1
                if not held.count:
                    del self.held[id]

    def _drop_all(self):
        """References end in the middle of anything, so they are told of by a thread of their own."""
        while True:
            owner, id = self.dropped.get()
            if owner is None:
                return
            try:
                self._drop(id) if owner == self.info else self.link(owner.id).send(DROP, pickle.dumps(id))
            except Exception:
                pass  # the owner has gone, and the value with it

    # ---- Serving ----
    def _accept(self):
        while not self.closed:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with self.door:
                self.strangers.append(connection)
                crowd = self.strangers[:-_STRANGERS]
            for oldest in crowd:
                try:
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread sees that, and ends
                except OSError:
                    pass
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _greet(self, connection):
        """The worker that calls us; None: a stranger does."""
        try:
            _C._dist_prove(connection.fileno(), True, _PROOF)
            connection.settimeout(_PROOF)
            word, peer = _HELLO.unpack(_read(connection, _HELLO.size))
            connection.settimeout(None)
        except (OSError, RuntimeError):
            return None
        finally:
            with self.door:
                self.strangers.remove(connection)
        return peer if hmac.compare_digest(word, self.word) and peer < len(self.workers) else None

    def _serve(self, connection):
        peer = self._greet(connection)
        if peer is None:
            return connection.close()
        try:
            frames = _Frames(connection)
            while not self.closed:
                number, kind, data, context, message = frames.receive()
                if kind == CALL:
                    with self.lock:
                        self.serving += 1
                    threading.Thread(
                        target=self._execute, args=(frames, peer, number, data, context, message), daemon=True
                    ).start()
                    continue
                id = pickle.loads(data)
                if kind == MAKE:
                    self.hold(id)
                elif kind == KEEP:
                    with self.lock:
                        self.held[id].count += 1
                else:
                    self._drop(id)
                frames.send(number, DONE)
        except (OSError, ConnectionError):
            connection.close()

    def _execute(self, frames, peer, number, data, context, message):
        from taper.distributed.autograd import _within

        with _within(context):
            try:
                function, args, kwargs = _pickles.loads(data, peer, context, message)
                result = function(*args, **kwargs)
                later = (
                    hasattr(function, "_wrapped_async_rpc_function")
                    or getattr(function, "_may_be_later", False)
                    and isinstance(result, Future)
                )
            except Exception as error:
                return self._reply(frames, peer, number, None, error)
            if not later:
                return self._reply(frames, peer, number, result, None)

        def when_done(future):
            with _within(context):
                try:
                    result = future.value()
                except Exception as error:
                    return self._reply(frames, peer, number, None, error)
                self._reply(frames, peer, number, result, None)

        result.add_done_callback(when_done)

    def _reply(self, frames, peer, number, result, error):
        try:
            if error is None:
                try:
                    data, context, message = _pickles.dumps(result, peer)
                except Exception as unfit:
                    error = unfit
            if error is not None:
                where = RemoteException(error, self.info)
                error.__traceback__ = (
                    None  # a held value's error would hold the references of everybody who asked for it
                )
                try:
                    data, context, message = _pickles.dumps(where, peer)
                except Exception:  # an exception of a kind that cannot travel
                    where.kind = RuntimeError
                    data, context, message = _pickles.dumps(where, peer)
            frames.send(number, DONE if error is None else FAILED, data, context, message)
        except OSError:
            pass  # whoever asked has gone
        finally:
            with self.lock:
                self.serving -= 1

    # ---- Ending ----
    def idle(self):
        with self.lock:
            return not self.serving and not any(link.pending for link in self.links.values())

    def close(self):
        self.closed = True
        self.dropped.put((None, None))
        self.listener.close()
        for link in self.links.values():
            link.frames.connection.close()
