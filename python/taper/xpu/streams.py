"""torch.xpu.streams: streams and events of Intel's GPUs."""

from taper._gpu import streams as _streams


class Stream(_streams.Stream):
    """Work on a GPU, in order."""

    _kind = "xpu"
    sycl_queue = property(lambda self: self._handle)

    def __new__(cls, device=None, priority=0, **kwargs):
        return super().__new__(cls, device, priority, **kwargs)

    def _event(self):
        return Event()

    def __repr__(self):
        return f"torch.xpu.Stream(device={self.device} sycl_queue={self.sycl_queue:#x})"


class Event(_streams.Event):
    """A point in a stream, to wait for and to measure from."""

    _kind = "xpu"
    sycl_event = property(lambda self: self.event_id)

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False):
        return super().__new__(cls, enable_timing=enable_timing)

    def __repr__(self):
        return (
            f"torch.xpu.Event(sycl_event={self.sycl_event:#x})" if self.sycl_event else "torch.xpu.Event(uninitialized)"
        )


globals().update(_streams.Streams("xpu", "XPU", Stream).functions(without=("default_stream",)))
StreamContext = _streams.StreamContext
