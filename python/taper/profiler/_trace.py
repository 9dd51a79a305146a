"""Profiles as Chrome traces: JSON that chrome://tracing, Perfetto and TensorBoard's profiler plugin read."""

import json
import os


def _metadata(pid, tid, ts):
    def row(what, thread, **args):
        return {"ph": "M", "name": what, "ts": ts, "pid": pid, "tid": thread, "args": args}

    return [
        row("process_name", 0, name="python"),
        row("process_labels", 0, labels="CPU"),
        row("process_sort_index", 0, sort_index=pid),
        row("thread_name", tid, name=f"thread {tid} (python)"),
        row("thread_sort_index", tid, sort_index=tid),
    ]


def _on_cpu(event):
    return event.activity_kind is None


def _device_metadata(events, ts):
    """Names of the lanes: a process for each GPU, a thread for each of its streams."""
    rows, seen = [], set()
    for event in events:
        gpu, stream = event.device_index, event.device_resource_id
        for thread, what, args in (
            (0, "process_name", {"name": "python"}),
            (0, "process_labels", {"labels": f"GPU {gpu}"}),
            (0, "process_sort_index", {"sort_index": 5000000 + gpu}),
            (stream, "thread_name", {"name": f"stream {stream}"}),
            (stream, "thread_sort_index", {"sort_index": stream}),
        ):
            if (gpu, thread, what) not in seen:
                seen.add((gpu, thread, what))
                rows.append({"ph": "M", "name": what, "ts": ts, "pid": gpu, "tid": thread, "args": args})
    return rows


def _device_row(event, offset):
    args = {"device": event.device_index, "stream": event.device_resource_id, "correlation": event.id}
    if event.linked_correlation_id:
        args["External id"] = event.linked_correlation_id
    if event.nbytes:
        args["bytes"] = event.nbytes
        if event.time_range.elapsed_us() > 0:
            args["memory bandwidth (GB/s)"] = event.nbytes / event.time_range.elapsed_us() / 1e3
    return {
        "ph": "X",
        "cat": event.activity_kind,
        "name": event.name,
        "pid": event.device_index,
        "tid": event.device_resource_id,
        "ts": round(event.time_range.start + offset, 3),
        "dur": round(event.time_range.elapsed_us(), 3),
        "args": args,
    }


def _launches(events, pid, tid, offset):
    """Arrows from a call to what a GPU did for it."""
    callers, out = {event.id: event for event in events if _on_cpu(event)}, []
    for event in events:
        caller = callers.get(event.linked_correlation_id)
        if caller is None or _on_cpu(event):
            continue
        start = {"ph": "s", "pid": pid, "tid": tid, "ts": round(caller.time_range.start + offset, 3)}
        end = {
            "ph": "f",
            "pid": event.device_index,
            "tid": event.device_resource_id,
            "ts": round(event.time_range.start + offset, 3),
            "bp": "e",
        }
        out += [{**row, "id": event.id, "cat": "ac2g", "name": "ac2g"} for row in (start, end)]
    return out


def _properties(events):
    """What the GPUs of a trace are, as TensorBoard's plugin reads it."""
    out = []
    for kind, index in sorted({(event.use_device, event.device_index) for event in events}):
        import taper

        found = getattr(taper, kind).get_device_properties(index)
        about = {"id": index, "name": found.name, "totalGlobalMem": found.total_memory}
        if kind == "cuda":
            about |= {
                "computeMajor": found.major,
                "computeMinor": found.minor,
                "numSms": found.multi_processor_count,
                "warpSize": found.warp_size,
            }
        out.append(about)
    return out


def _row(event, pid, tid, offset):
    args = {"External id": event.id, "Ev Idx": event.id - 1}
    if event.sequence_nr >= 0:
        args["Sequence number"] = event.sequence_nr
        args["Fwd thread id"] = event.fwd_thread
    if event.structured_input_shapes:
        args["Input Dims"] = event.structured_input_shapes
        args["Input type"] = event.input_dtypes
    if event.stack:
        args["Call stack"] = ";".join(event.stack)
    return {
        "ph": "X",
        "cat": "user_annotation" if event.is_user_annotation else "cpu_op",
        "name": event.trace_name,
        "pid": pid,
        "tid": tid,
        "ts": round(event.time_range.start + offset, 3),
        "dur": round(event.cpu_time_total, 3),
        "args": args,
    }


def _links(events, pid, tid, offset):
    """Arrows from a forward call to the backward node it recorded."""
    forward, out = {}, []
    for event in events:
        if event.sequence_nr >= 0 and not event.fwd_thread:
            forward[event.sequence_nr] = event  # of calls inside each other the innermost recorded the node
    for event in events:
        start = forward.get(event.sequence_nr) if event.fwd_thread and event.name.startswith("autograd::") else None
        if start is None:
            continue
        for phase, at, more in (("s", start, {}), ("f", event, {"bp": "e"})):
            out.append(
                {
                    "ph": phase,
                    "id": event.sequence_nr + 1,
                    "pid": pid,
                    "tid": tid,
                    "ts": round(at.time_range.start + offset, 3),
                    "cat": "fwdbwd",
                    "name": "fwdbwd",
                    **more,
                }
            )
    return out


def _memory(events, pid, tid, offset, usage="self_cpu_memory_usage", place=(0, -1)):
    """Marks where an event took or gave back memory; place: the device's type, as PyTorch counts them, and index."""
    total, out = 0, []
    for event in sorted(events, key=lambda e: e.time_range.end):
        taken = getattr(event, usage)
        if taken:
            total += taken
            out.append(
                {
                    "ph": "i",
                    "cat": "cpu_instant_event",
                    "s": "t",
                    "name": "[memory]",
                    "pid": pid,
                    "tid": tid,
                    "ts": round(event.time_range.end + offset, 3),
                    "args": {"Total Allocated": total, "Bytes": taken, "Device Type": place[0], "Device Id": place[1]},
                }
            )
    return out


def write_trace(path, events, metadata):
    """Writes an EventList; a path that ends in .gz is compressed."""
    pid, tid = os.getpid(), events._thread
    offset = events._started_us
    calls = [event for event in events if _on_cpu(event)]
    on_gpus = [event for event in events if not _on_cpu(event)]
    rows = [_row(event, pid, tid, offset) for event in calls] + _links(calls, pid, tid, offset)
    rows += [_device_row(event, offset) for event in on_gpus] + _launches(events, pid, tid, offset)
    if events._profile_memory:
        rows += _memory(calls, pid, tid, offset)
        if on_gpus:
            place = on_gpus[0].device_type.value, on_gpus[0].device_index
            rows += _memory(calls, pid, tid, offset, "self_device_memory_usage", place)
    end = max((event.time_range.end for event in events), default=0.0)
    rows.append(
        {
            "ph": "X",
            "cat": "Trace",
            "ts": round(offset, 3),
            "dur": round(end, 3),
            "pid": "Spans",
            "tid": "PyTorch Profiler",
            "name": "PyTorch Profiler (0)",
            "args": {"Op count": 0},
        }
    )
    trace = {
        "schemaVersion": 1,
        "deviceProperties": _properties(on_gpus),
        "displayTimeUnit": "ms",
        **metadata,
        "traceEvents": _metadata(pid, tid, round(offset, 3)) + _device_metadata(on_gpus, round(offset, 3)) + rows,
        "traceName": str(path),
    }
    if str(path).endswith(".gz"):
        import gzip

        with gzip.open(path, "wt", encoding="utf-8") as file:
            json.dump(trace, file)
        return
    with open(path, "w", encoding="utf-8") as file:
        json.dump(trace, file, indent=1)
