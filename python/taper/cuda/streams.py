"""torch.cuda.streams: streams and events of GPUs."""

from taper._gpu import streams as _streams


class Stream(_streams.Stream):
    """Work on a GPU, in order."""

    _kind = "cuda"
    cuda_stream = property(lambda self: self._handle)

    def __new__(cls, device=None, priority=0, **kwargs):
        return super().__new__(cls, device, priority, **kwargs)

    def _event(self):
        return Event()

    def __repr__(self):
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that another library made, by its address."""

    def __new__(cls, stream_ptr, device=None, **kwargs):
        return super().__new__(cls, device, stream_ptr=stream_ptr)


class Event(_streams.Event):
    """A point in a stream, to wait for and to measure from."""

    _kind = "cuda"
    cuda_event = property(lambda self: self.event_id)

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False, external=False):
        return super().__new__(cls, enable_timing=enable_timing)

    def __repr__(self):
        return f"<torch.cuda.Event {self.cuda_event:#x}>" if self.cuda_event else "<torch.cuda.Event uninitialized>"


globals().update(_streams.Streams("cuda", "CUDA", Stream).functions())
StreamContext = _streams.StreamContext
