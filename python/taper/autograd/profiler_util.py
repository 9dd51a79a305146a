"""What a profile gives: events, their averages by name, and the table of them."""

import os
from collections import namedtuple
from enum import Enum
from math import prod

__all__ = ["EventList", "FormattedTimesMixin", "Interval", "Kernel", "FunctionEvent", "FunctionEventAvg"]

Kernel = namedtuple("Kernel", ["name", "device", "duration"])
_KIND_OPERATOR, _KIND_BACKWARD, _KIND_RANGE = range(3)  # tp_event_kind
_ACTIVITIES = ["kernel", "kernel", "gpu_memcpy", "gpu_memset", "kernel"]  # tp_activity_kind, as traces call them
_SCOPES = {_KIND_OPERATOR: 0, _KIND_BACKWARD: 1, _KIND_RANGE: 7}  # PyTorch's RecordScope


def _format_time(time_us):
    """Microseconds with the unit that suits them."""
    if time_us >= 1e6:
        return f"{time_us / 1e6:.3f}s"
    return f"{time_us / 1e3:.3f}ms" if time_us >= 1e3 else f"{time_us:.3f}us"


def _format_time_share(time_us, total_time_us):
    """A share in per cent."""
    return f"{time_us * 100.0 / total_time_us:.2f}%" if total_time_us else "NaN"


def _format_memory(nbytes):
    """Bytes with the unit that suits them."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


def _text(attribute):
    return property(lambda self: _format_time(getattr(self, attribute)))


class FormattedTimesMixin:
    """Times as texts, and as averages over the calls."""

    cpu_time_str = _text("cpu_time")
    device_time_str = _text("device_time")
    cpu_time_total_str = _text("cpu_time_total")
    device_time_total_str = _text("device_time_total")
    self_cpu_time_total_str = _text("self_cpu_time_total")
    self_device_time_total_str = _text("self_device_time_total")

    @property
    def cpu_time(self):
        return 0.0 if self.count == 0 else self.cpu_time_total / self.count

    @property
    def device_time(self):
        return 0.0 if self.count == 0 else self.device_time_total / self.count

    # Under their older names, which speak of one vendor's devices.
    cuda_time = device_time
    cuda_time_total = property(lambda self: self.device_time_total)
    self_cuda_time_total = property(lambda self: self.self_device_time_total)
    cuda_memory_usage = property(lambda self: self.device_memory_usage)
    self_cuda_memory_usage = property(lambda self: self.self_device_memory_usage)


class Interval:
    """From start to end, in microseconds."""

    def __init__(self, start, end):
        self.start, self.end = start, end

    def elapsed_us(self):
        return self.end - self.start


class DeviceType(Enum):
    """Where an event took place."""

    CPU = 0
    CUDA = 1
    XPU = 12

    def __str__(self):
        return f"DeviceType.{self.name}"


class FunctionEvent(FormattedTimesMixin):
    """One call of an operator, one turn of a backward node, one named range; or what a GPU did: a kernel, a copy."""

    count = 1
    nbytes = 0  # of a copy or a fill on a GPU
    linked_correlation_id = 0  # of what a GPU did: the id of the event that launched it
    node_id = -1
    is_async = is_remote = is_legacy = is_python_function = False
    overload_name = ""

    def __init__(
        self,
        id,
        name,
        thread,
        start_us,
        end_us,
        input_shapes=None,
        input_dtypes=None,
        structured_input_shapes=None,
        stack=None,
        scope=0,
        sequence_nr=-1,
        fwd_thread=0,
        bytes_taken=0,
        flops=0,
        trace_name=None,
        node_id=-1,
        is_async=False,
        is_remote=False,
        device_type=DeviceType.CPU,
        device_index=0,
        device_resource_id=0,
        device_bytes=0,
        use_device=None,
        activity_kind=None,
    ):
        self.id = self.external_id = id
        self.name = self.key = name
        self.trace_name = trace_name or name
        self.thread, self.fwd_thread = thread, fwd_thread
        self.time_range = Interval(start_us, end_us)
        self.input_shapes, self.input_dtypes = input_shapes or [], input_dtypes or []
        self.structured_input_shapes = structured_input_shapes or []
        self.stack = stack or []
        self.scope, self.sequence_nr = scope, sequence_nr
        self.cpu_memory_usage, self.device_memory_usage, self.flops = bytes_taken - device_bytes, device_bytes, flops
        self.cpu_children, self.cpu_parent = [], None
        self.node_id, self.is_async, self.is_remote = node_id, is_async, is_remote
        self.device_type, self.device_index, self.device_resource_id = device_type, device_index, device_resource_id
        self.use_device, self.activity_kind = use_device, activity_kind
        self.kernels = []  # what a GPU did for this event itself

    def append_kernel(self, name, device, duration):
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child):
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent):
        self.cpu_parent = parent

    @property
    def is_user_annotation(self):
        return self.scope == _SCOPES[_KIND_RANGE]

    @property
    def cpu_time_total(self):
        return self.time_range.elapsed_us() if self.device_type is DeviceType.CPU else 0.0

    @property
    def self_cpu_time_total(self):
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def device_time_total(self):
        if self.device_type is not DeviceType.CPU:
            return self.time_range.elapsed_us()
        return self.self_device_time_total + sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self):
        if self.device_type is not DeviceType.CPU:
            return self.time_range.elapsed_us()
        return sum(kernel.duration for kernel in self.kernels)

    @property
    def self_cpu_memory_usage(self):
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self):
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    def __repr__(self):
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start:.3f} end_us={self.time_range.end:.3f} "
            f"cpu_children={[child.id for child in self.cpu_children]} {self.use_device}_time={self.device_time_str} "
            f"name={self.name} thread={self.thread} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} {self.use_device}_memory_usage={self.device_memory_usage} "
            f"is_async=False is_remote=False seq_nr={self.sequence_nr} is_legacy=False>"
        )


class FunctionEventAvg(FormattedTimesMixin):
    """The calls of one name (and shapes, or stack) together."""

    def __init__(self):
        self.key = self.input_shapes = self.stack = self.scope = self.cpu_parent = self.use_device = (
            self.device_type
        ) = None
        self.count = self.node_id = self.cpu_time_total = self.self_cpu_time_total = 0
        self.cpu_memory_usage = self.self_cpu_memory_usage = self.flops = 0
        self.device_time_total = self.self_device_time_total = 0
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.cpu_children = []
        self.is_async = self.is_remote = self.is_legacy = self.is_user_annotation = False
        self.overload_name = ""

    def add(self, other):
        if self.key is None:
            for name in (
                "key",
                "node_id",
                "cpu_parent",
                "cpu_children",
                "input_shapes",
                "stack",
                "scope",
                "is_user_annotation",
                "use_device",
                "device_type",
            ):
                setattr(self, name, getattr(other, name))
        for name in (
            "count",
            "cpu_time_total",
            "self_cpu_time_total",
            "cpu_memory_usage",
            "self_cpu_memory_usage",
            "device_time_total",
            "self_device_time_total",
            "device_memory_usage",
            "self_device_memory_usage",
            "flops",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    __iadd__ = add

    def __repr__(self):
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_{self.use_device or 'cuda'}_time={self.self_device_time_total_str} "
            f"{self.use_device or 'cuda'}_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} "
            f"{self.use_device or 'cuda'}_memory_usage={self.device_memory_usage}>"
        )


class EventList(list):
    """Events or averages of them, with the table."""

    def __init__(self, *args, use_device=None, profile_memory=False, with_flops=False, started_us=0.0, thread=0):
        super().__init__(*args)
        self._use_device, self._profile_memory, self._with_flops = use_device, profile_memory, with_flops
        self._started_us, self._thread = started_us, thread
        self._tree_built = True

    def _like(self, events):
        return EventList(
            events,
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
            started_us=self._started_us,
            thread=self._thread,
        )

    @property
    def self_cpu_time_total(self):
        """Microseconds of all events, each counted once."""
        return sum(event.self_cpu_time_total for event in self)

    @property
    def _self_device_time_total(self):
        """Microseconds of what GPUs did, each kernel counted once."""
        return sum(event.self_device_time_total for event in self if event.device_type is not DeviceType.CPU)

    def key_averages(self, group_by_input_shapes=False, group_by_stack_n=0, group_by_overload_name=False):
        """One row per name; with the shapes, or the innermost entries of the stack, told apart if asked."""
        rows = {}
        for event in self:
            key = (
                event.key,
                event.device_type,
                str(event.input_shapes) if group_by_input_shapes else "",
                tuple(event.stack[:group_by_stack_n]),
            )
            rows.setdefault(key, FunctionEventAvg()).add(event)
        for row in rows.values():
            row.input_shapes = str(row.input_shapes) if group_by_input_shapes else ""
            row.stack = row.stack[:group_by_stack_n]
        return self._like(rows.values())

    def total_average(self):
        """All events in one row."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
            total.key = None
        total.key = "Total"
        return total

    def table(
        self,
        sort_by=None,
        row_limit=100,
        max_src_column_width=75,
        max_name_column_width=55,
        max_shapes_column_width=80,
        header=None,
        top_level_events_only=False,
        time_unit=None,
    ):
        """The events as a table in text, the largest first if `sort_by` names a column."""
        return _build_table(
            self,
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
        )

    def __str__(self):
        return self.table()

    def export_chrome_trace(self, path):
        """Writes the events for chrome://tracing or Perfetto."""
        from taper.profiler._trace import write_trace

        write_trace(path, self, {})

    def supported_export_stacks_metrics(self):
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]

    def export_stacks(self, path, metric):
        """Writes `frame;frame;frame microseconds` per stack, as flame graphs want it."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics()}")
        if metric != "self_cpu_time_total":
            metric = "self_device_time_total"
        with open(path, "w", encoding="utf-8") as file:
            for event in self.key_averages(group_by_stack_n=1 << 30):
                value = int(getattr(event, metric))
                if event.stack and value > 0:
                    frames = ";".join(
                        frame.translate(str.maketrans(" ;\t\n", "____")) for frame in reversed(event.stack)
                    )
                    file.write(f"{frames} {value}\n")


_FLOP_UNITS = ["FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs"]


def _flops_unit(events):
    """The largest unit in which the smallest count is at least one: (its divisor, its name)."""
    least = min(event.flops for event in events if event.flops)
    power = 0
    while least >= 1000 ** (power + 1) and power + 1 < len(_FLOP_UNITS):
        power += 1
    return 1000**power, _FLOP_UNITS[power]


def _short(text, width):
    return text if len(text) <= width or width < 4 else text[: width - 3] + "..."


def _columns(events, total_us, name_width, shapes_width, source_width):
    """(heading, width, value of an event) for each column."""

    def longest(texts, limit):
        return min(max((len(text) for text in texts), default=0) + 4, limit)

    name = longest((event.key for event in events), name_width)
    columns = [("Name", name, lambda e: e.key[: name_width - 3] + "..." if 3 < name_width <= len(e.key) + 3 else e.key)]
    columns += [
        ("Self CPU %", 12, lambda e: _format_time_share(e.self_cpu_time_total, total_us)),
        ("Self CPU", 12, lambda e: e.self_cpu_time_total_str),
        ("CPU total %", 12, lambda e: _format_time_share(e.cpu_time_total, total_us)),
        ("CPU total", 12, lambda e: e.cpu_time_total_str),
        ("CPU time avg", 12, lambda e: e.cpu_time_str),
    ]
    device = (events._use_device or "cuda").upper()
    if any(event.self_device_time_total > 0 for event in events):
        device_us = events._self_device_time_total
        columns += [
            (f"Self {device}", 12, lambda e: e.self_device_time_total_str),
            (f"Self {device} %", 12, lambda e: _format_time_share(e.self_device_time_total, device_us)),
            (f"{device} total", 12, lambda e: e.device_time_total_str),
            (f"{device} time avg", 13, lambda e: e.device_time_str),
        ]
    if events._profile_memory:
        columns += [
            ("CPU Mem", 12, lambda e: _format_memory(e.cpu_memory_usage)),
            ("Self CPU Mem", 12, lambda e: _format_memory(e.self_cpu_memory_usage)),
        ]
    if events._profile_memory and any(event.self_device_memory_usage > 0 for event in events):
        columns += [
            (f"{device} Mem", 12, lambda e: _format_memory(e.device_memory_usage)),
            (f"Self {device} Mem", 13, lambda e: _format_memory(e.self_device_memory_usage)),
        ]
    columns.append(("# of Calls", 12, lambda e: str(e.count)))
    if any(isinstance(event, FunctionEventAvg) and event.input_shapes for event in events):
        shapes = longest((str(event.input_shapes) for event in events), shapes_width)
        columns.append(("Input Shapes", shapes, lambda e: _short(str(e.input_shapes), shapes)))
    stacks = [event.stack for event in events if event.stack]
    if stacks:
        source = longest((frame for stack in stacks for frame in stack), source_width)
        columns.append(("Source Location", source, lambda e: _short(e.stack[0], source) if e.stack else ""))
    if events._with_flops and any(event.flops for event in events):
        divisor, unit = _flops_unit(events)
        columns.append((f"Total {unit}", 12, lambda e: f"{e.flops / divisor:8.3f}" if e.flops else "--"))
    return columns


def _build_table(events, sort_by, row_limit, source_width, name_width, shapes_width, header, top_level_only):
    if not events:
        return ""
    if sort_by is not None:
        events = events._like(
            sorted(
                events,
                key=lambda event: getattr(event, sort_by.replace("cuda", "device").replace("xpu", "device")),
                reverse=True,
            )
        )
    total_us = events.self_cpu_time_total
    columns = _columns(events, total_us, name_width, shapes_width, source_width)
    line = "  ".join("-" * width for _, width, _ in columns) + "  "
    out = []
    if header is not None:
        out += ["=" * len(line), header]
    if top_level_only:
        out += ["=" * len(line), "This report only display top-level ops statistics"]
    out += [line, "  ".join(f"{heading:>{width}}" for heading, width, _ in columns) + "  ", line]
    rows = [event for event in events if not (top_level_only and event.cpu_parent is not None)]
    for event in rows if row_limit < 0 else rows[:row_limit]:
        out.append("  ".join(f"{value(event):>{width}}" for _, width, value in columns) + "  ")
        deeper = event.stack[1:] if len(columns) and columns[-1][0] == "Source Location" else ()
        for frame in deeper:  # the rest of the stack, below its first entry
            out.append(
                "  ".join(
                    f"{_short(frame, width) if heading == 'Source Location' else '':>{width}}"
                    for heading, width, _ in columns
                )
                + "  "
            )
    out += [line, f"Self CPU time total: {_format_time(total_us)}"]
    if any(event.self_device_time_total > 0 for event in events):
        device_us = _format_time(events._self_device_time_total)
        out.append(f"Self {(events._use_device or 'cuda').upper()} time total: {device_us}")
    out.append("")
    return "\n".join(out)


# ---- From what the library recorded to events
# ------------------------------------------------------------------------------------------------


def _shape_of(entry):
    """A tensor's sizes; nothing for what is no tensor."""
    return list(entry[1]) if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[1], tuple) else []


def _is_tensor(entry):
    return isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[1], tuple)


def _type_of(entry):
    if isinstance(entry, list):
        return "TensorList"
    return (
        str(entry[0]).replace("torch.", "").replace("float32", "float").replace("float64", "double")
        if _is_tensor(entry)
        else "Scalar"
        if isinstance(entry, tuple)
        else ""
    )


def _flops(name, inputs, products):
    """Floating-point operations of an operator: two for each product of its stanza's cost line. As in PyTorch, sums and
    products of elements count too."""
    shapes = [entry[1] for entry in inputs if _is_tensor(entry)]
    return prod(max(shapes, key=len)) if name in ("add", "mul") and shapes else 2 * products


def _count_once(events):
    """A product inside a product is counted once, at the inner one; a convolution at the function that was called."""
    for event in reversed(events):
        inside = [child for child in event.cpu_children if child.flops]
        if inside and event.name.startswith("aten::conv"):
            event.flops = sum(child.flops for child in inside)
            for child in inside:
                child.flops = 0
        elif inside:
            event.flops = 0


def _public_name(name, kind):
    """PyTorch's name of an event: aten::max for max.dim. What a graph has joined keeps its own."""
    if kind != _KIND_OPERATOR or name.startswith("fused: "):
        return name
    if name in ("to_dtype", "to_device"):
        return "aten::_to_copy"
    base, dot, overload = name.partition(".")
    return "aten::" + base + ("_" if dot and overload.endswith("_") else "")


def _rewritten(name):
    """Steps of a schedule share a row."""
    return "ProfilerStep*" if name.startswith("ProfilerStep#") else name


def _add_activities(activities, made, out, started):
    """Appends what GPUs did as events of their own, and tells the events that launched it."""
    for name, kind, device, index, stream, start, end, owner, nbytes in activities:
        event = FunctionEvent(
            len(out) + 1,
            name,
            stream,
            (start - started) / 1e3,
            (end - started) / 1e3,
            device_type=DeviceType[device.upper()],
            device_index=index,
            device_resource_id=stream,
            use_device=device,
            activity_kind=_ACTIVITIES[kind],
        )
        event.nbytes = nbytes
        if owner >= 0:
            event.linked_correlation_id = made[owner].id
            made[owner].append_kernel(name, index, event.time_range.elapsed_us())
        out.append(event)


def events_from(recorded, activities, thread, record_shapes, profile_memory, with_flops):
    """An EventList of what _C._profile_stop gave. A backward node makes two events, as PyTorch's engine tells of
    them."""
    started = min([entry[3] for entry in recorded[:1]] + [entry[5] for entry in activities[:1]], default=0)
    use_device = activities[0][2] if activities else None
    made, out = [], []

    def add(parent, name, kind, start, end, **about):
        event = FunctionEvent(
            len(out) + 1,
            _rewritten(name),
            1,
            (start - started) / 1e3,
            (end - started) / 1e3,
            scope=_SCOPES[kind],
            trace_name=name,
            use_device=use_device,
            **about,
        )
        if parent is not None:
            event.set_cpu_parent(parent)
            parent.append_cpu_child(event)
            event.stack = event.stack or parent.stack
        out.append(event)
        return event

    forward = {}
    for name, kind, parent, start, end, sequence, taken, inputs, note, device_taken, products in recorded:
        above = made[parent] if parent >= 0 else None
        backward = kind == _KIND_BACKWARD
        sequence = sequence - 1 if sequence > 0 else sequence  # PyTorch counts from zero
        about = {
            "sequence_nr": sequence,
            "fwd_thread": int(backward),
            "bytes_taken": taken,
            "device_bytes": device_taken,
            "stack": forward.get(sequence) if backward else note,
        }
        if backward:
            name = "torch::autograd::AccumulateGrad" if name == "AccumulateGrad" else name
            above = add(above, "autograd::engine::evaluate_function: " + name, kind, start, end, **about)
        elif sequence >= 0 and note:
            forward.setdefault(sequence, note)
        if record_shapes and kind == _KIND_OPERATOR:
            about["input_shapes"] = [_shape_of(entry) for entry in inputs]
            about["structured_input_shapes"] = [
                [_shape_of(e) for e in entry] if isinstance(entry, list) else _shape_of(entry) for entry in inputs
            ]
            about["input_dtypes"] = [_type_of(entry) for entry in inputs]
        if with_flops and kind == _KIND_OPERATOR:
            about["flops"] = _flops(name.partition(".")[0], inputs, products)
        made.append(add(above, _public_name(name, kind), kind, start, end, **about))
    _count_once(out)
    _add_activities(activities, made, out, started)
    return EventList(
        out,
        use_device=use_device,
        profile_memory=profile_memory,
        with_flops=with_flops,
        started_us=started / 1e3,
        thread=thread or os.getpid(),
    )
