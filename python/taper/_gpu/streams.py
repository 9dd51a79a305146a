"""Streams and events of accelerators: torch.Stream and torch.Event, which torch.cuda's and torch.xpu's are kinds of.
The CPU has one stream, which is always done."""

from taper import _C
from taper._gpu import DeviceFunctions
from taper._gpu.devices import index_of, need

_WORDS = {"cuda": "CUDA", "xpu": "XPU"}
_TYPE_NUMBERS = {"cpu": 0, "cuda": 1, "xpu": 12}


def _place(device, kind=None):
    """The torch.device, with an index, that a stream or event is for."""
    if isinstance(device, int) and kind:
        return _C.device(kind, device)
    if device is None:
        from taper.accelerator import current_accelerator

        accelerator = None if kind else current_accelerator()
        kind = kind or (accelerator.type if accelerator else "cpu")
        return _C.device("cpu") if kind == "cpu" else _C.device(kind, _C._gpu_current(kind))
    place = _C.device(device)
    if kind and place.type != kind:
        raise ValueError(f"Expected a {kind} device, but got: {device}")
    return (
        place if place.type == "cpu" or place.index is not None else _C.device(place.type, index_of(place.type, place))
    )


class Stream:
    """A queue of work on a device, done in order. Within `with stream:` it is the current one."""

    _kind = None  # the relatives fix it

    def __new__(
        cls, device=None, priority=0, *, stream_id=None, device_index=None, device_type=None, stream_ptr=None, **unused
    ):
        self = object.__new__(cls)
        if isinstance(device, Stream):  # torch.Stream(stream)
            stream_ptr, device = device.stream_id, device.device
        if device is None and device_index is not None:
            device = (
                device_index
                if cls._kind
                else _C.device({number: name for name, number in _TYPE_NUMBERS.items()}[device_type], device_index)
            )
        self._device = _place(device, cls._kind)
        kind = self._device.type
        if kind == "cpu":
            self._handle = 0
            return self
        need(kind, _WORDS[kind])
        known = stream_ptr if stream_ptr is not None else stream_id
        self._handle = _C._stream_new(kind, self._device.index, priority) if known is None else known
        self._before = []
        return self

    def __init__(self, *args, **kwargs):
        pass

    def _at(self):
        return self._device.type, self._device.index, self._handle

    device = property(lambda self: self._device)
    device_index = property(lambda self: -1 if self._device.index is None else self._device.index)
    device_type = property(lambda self: _TYPE_NUMBERS[self._device.type])
    stream_id = property(lambda self: self._handle)
    native_handle = stream_id
    _as_parameter_ = property(lambda self: __import__("ctypes").c_void_p(self._handle))

    @property
    def priority(self):
        return _C._stream_priority(*self._at())

    @staticmethod
    def priority_range():
        """(the least urgent, the most urgent)"""
        return 0, -3

    def query(self):
        """Is everything done that was submitted so far?"""
        return self._device.type == "cpu" or _C._stream_query(*self._at())

    def synchronize(self):
        """Waits for everything that was submitted so far."""
        if self._device.type != "cpu":
            _C._stream_synchronize(*self._at())

    def is_capturing(self):
        if self._device.type == "cpu":
            return False
        with self:
            return _C._gpu_capturing(self._device.type, self._device.index)

    def wait_stream(self, stream):
        """Work submitted from here on waits for what the other stream has to do now."""
        if "cpu" not in (self._device.type, stream.device.type):
            _C._stream_wait(*self._at(), *stream._at()[1:])

    def wait_event(self, event):
        """Work submitted from here on waits for the event."""
        event.wait(self)

    def record_event(self, event=None):
        """Puts an event behind what was submitted so far; returns it."""
        event = self._event() if event is None else event
        event.record(self)
        return event

    def _event(self):
        return Event(self._device)

    def __enter__(self):
        if self._device.type != "cpu":
            kind, index = self._device.type, self._device.index
            self._before.append((_C._gpu_current(kind), _C._stream_current(kind, index)))
            _C._gpu_set_current(kind, index)
            _C._stream_set_current(*self._at())
        return self

    def __exit__(self, *error):
        if self._device.type != "cpu":
            current, stream = self._before.pop()
            _C._stream_set_current(self._device.type, self._device.index, stream)
            _C._gpu_set_current(self._device.type, current)
        return False

    def __eq__(self, other):
        return isinstance(other, Stream) and self._device == other._device and self._handle == other._handle

    def __hash__(self):
        return hash((self._device, self._handle))

    def __repr__(self):
        return (
            f"torch.Stream device_type={self._device.type}, device_index={self.device_index}, stream_id={self._handle}"
        )


class Event:
    """A point in a stream, to wait for and to measure from."""

    _kind = None

    def __new__(cls, device=None, *, enable_timing=False, blocking=False, interprocess=False, external=False):
        self = object.__new__(cls)
        self._device_kind = cls._kind or _place(device).type
        self._mark, self._timing = None, bool(enable_timing)
        if self._device_kind != "cpu" and _C._gpu_count(self._device_kind):  # without one, only record() needs it
            need(self._device_kind, _WORDS[self._device_kind])
            self._mark = _C._Mark(self._device_kind, bool(enable_timing))
        return self

    def __init__(self, *args, **kwargs):
        pass

    @property
    def device(self):
        index = self._mark.index() if self._mark else None
        return (
            None
            if self._mark and index is None
            else _C.device(self._device_kind)
            if index is None
            else _C.device(self._device_kind, index)
        )

    event_id = property(lambda self: self._mark.handle() if self._mark else 0)
    _as_parameter_ = property(lambda self: __import__("ctypes").c_void_p(self.event_id))

    def _stream(self, stream):
        return current_stream(self._device_kind) if stream is None else stream

    def record(self, stream=None):
        """Puts it behind what was submitted to a stream, the current one unless given."""
        if self._device_kind != "cpu":
            need(self._device_kind, _WORDS[self._device_kind])
        if self._mark:
            self._mark.record(*self._stream(stream)._at())

    def wait(self, stream=None):
        """Work submitted to the stream from here on waits for it."""
        if self._mark:
            self._mark.hold(*self._stream(stream)._at())

    def query(self):
        """Was it reached?"""
        return not self._mark or self._mark.query()

    def synchronize(self):
        """Waits until it is reached."""
        if self._mark:
            self._mark.synchronize()

    def elapsed_time(self, end_event):
        """Milliseconds from this event to another; both recorded and reached, made with enable_timing=True."""
        if not self._mark and self._device_kind != "cpu":
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not self._mark:
            raise RuntimeError("the CPU's events have no time")
        return self._mark.elapsed(end_event._mark)

    def ipc_handle(self):
        raise RuntimeError("events are not shared between processes")

    def __repr__(self):
        device = self.device
        return (
            f"torch.Event device_type={self._device_kind}, "
            f"device_index={-1 if device is None or device.index is None else device.index}, "
            f"event_flag={int(self._timing)}, event_id={self.event_id}"
        )


def current_stream(kind, device=None, relative=Stream):
    """The thread's current stream on a device, as a torch.Stream or one of its relatives."""
    if kind == "cpu":
        return Stream("cpu")
    need(kind, _WORDS[kind])
    index = index_of(kind, device)
    return relative(_C.device(kind, index), stream_ptr=_C._stream_current(kind, index))


def set_stream(stream):
    """Makes a stream the thread's current one, and its device the current device."""
    if stream is not None and stream.device.type != "cpu":
        _C._gpu_set_current(stream.device.type, stream.device.index)
        _C._stream_set_current(*stream._at())


class StreamContext:
    """Makes a stream the current one within a `with`; None leaves things as they are."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *error):
        if self.stream is not None:
            self.stream.__exit__(*error)
        return False


class Streams(DeviceFunctions):
    """The functions of torch.cuda and torch.xpu about streams."""

    def __init__(self, kind, word, relative):
        super().__init__(kind, word)
        self._relative = relative

    def current_stream(self, device=None):
        """The thread's current stream on a device."""
        return current_stream(self._kind, device, self._relative)

    def default_stream(self, device=None):
        """The stream that work goes to unless another one is made current."""
        need(self._kind, self._word)
        return self._relative(_C.device(self._kind, index_of(self._kind, device)), stream_ptr=0)

    def get_stream_from_external(self, data_ptr, device=None):
        """A stream that another library made, by its address."""
        need(self._kind, self._word)
        return self._relative(_C.device(self._kind, index_of(self._kind, device)), stream_ptr=data_ptr)

    def set_stream(self, stream):
        """Makes a stream the thread's current one; None does nothing."""
        set_stream(stream)

    def stream(self, stream):
        """Makes a stream the current one within a `with`."""
        return StreamContext(stream)
