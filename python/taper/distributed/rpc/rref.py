"""RRef: a reference to a value that some worker holds."""

from taper.distributed.rpc import _pickles


def _agent():
    from taper.distributed.rpc.api import _get_current_rpc_agent

    return _get_current_rpc_agent()


class RRef:
    """RRef(value): this worker holds the value, and others may be told of it. remote() makes those of other workers."""

    _making = None  # the call that makes the value, where it is ours

    def __init__(self, value, type_hint=None):
        agent = _agent()
        self._owner, self._id, self._home = agent.info, agent.new_id(), agent
        agent.hold(self._id).future.set_result(value)

    @classmethod
    def _of(cls, owner, id):
        made = cls.__new__(cls)
        made._owner, made._id, made._home = owner, id, _agent()
        return made

    def __del__(self):
        if hasattr(self, "_home") and not self._home.closed:
            self._home.dropped.put((self._owner, self._id))

    def __reduce__(self):
        if not _pickles.is_travelling():
            raise RuntimeError("Can not pickle rref in python pickler, rref can only be pickled when using RPC")
        self._home.keep(self._owner, self._id)
        return _arrived, (self._owner.id, self._id)

    def is_owner(self):
        return self._owner == self._home.info

    def owner(self):
        return self._owner

    def owner_name(self):
        return self._owner.name

    def confirmed_by_owner(self):
        return True

    def local_value(self):
        """The value, on the worker that holds it."""
        if not self.is_owner():
            raise RuntimeError(
                f"For {self!r}, can't call localValue() on user {self._home.info}. Call it on owner {self._owner}"
            )
        return self._home.held[self._id].future.wait()

    def to_here(self, timeout=-1.0):
        """The value itself, or a copy of it that comes from its owner."""
        if self._making is not None:
            self._making.wait()  # a call that did not even begin says so here
        return (
            self.local_value()
            if self.is_owner()
            else self._home.call(self._owner, _fetch, (self,), timeout=timeout).wait()
        )

    def rpc_sync(self, timeout=-1.0):
        """What has the value's methods, and calls them where it is."""
        from taper.distributed.rpc.api import rpc_sync

        return RRefProxy(self, rpc_sync, timeout)

    def rpc_async(self, timeout=-1.0):
        from taper.distributed.rpc.api import rpc_async

        return RRefProxy(self, rpc_async, timeout)

    def remote(self, timeout=-1.0):
        from taper.distributed.rpc.api import remote

        return RRefProxy(self, remote, timeout)

    def backward(self, dist_autograd_ctx_id=-1, retain_graph=False):
        """Backward from the value, where it is; with a context's number, across workers."""
        self._home.call(self._owner, _backward, (self, dist_autograd_ctx_id, retain_graph)).wait()

    def _serialize(self):
        return self.__reduce__()[1]

    def __repr__(self):
        kind = "OwnerRRef" if self.is_owner() else "UserRRef"
        return f"{kind}(RRefId = GloballyUniqueId(created_on={self._id[0]}, local_id={self._id[1]}))"


PyRRef = RRef


def _arrived(owner, id):
    return RRef._of(_agent().workers[owner], tuple(id))


def _fetch(rref):
    return rref.local_value()


def _backward(rref, context, retain_graph):
    if context < 0:
        return rref.local_value().backward(retain_graph=retain_graph)
    from taper.distributed.autograd import backward

    backward(context, [rref.local_value()], retain_graph)


def _invoke(rref, name, args, kwargs):
    return getattr(rref.local_value(), name)(*args, **kwargs)


_invoke._may_be_later = True


class RRefProxy:
    """A value's methods, called where the value is."""

    def __init__(self, rref, how, timeout):
        self._rref, self._how, self._timeout = rref, how, timeout

    def __getattr__(self, name):
        def call(*args, **kwargs):
            return self._how(self._rref.owner(), _invoke, args=(self._rref, name, args, kwargs), timeout=self._timeout)

        return call
