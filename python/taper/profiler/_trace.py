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


def _memory(events, pid, tid, offset):
    total, out = 0, []
    for event in sorted(events, key=lambda e: e.time_range.end):
        taken = event.self_cpu_memory_usage
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
                    "args": {"Total Allocated": total, "Bytes": taken, "Device Type": 0, "Device Id": -1},
                }
            )
    return out


def write_trace(path, events, metadata):
    """Writes an EventList; a path that ends in .gz is compressed."""
    pid, tid = os.getpid(), events._thread
    offset = events._started_us
    rows = [_row(event, pid, tid, offset) for event in events] + _links(events, pid, tid, offset)
    if events._profile_memory:
        rows += _memory(events, pid, tid, offset)
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
        "deviceProperties": [],
        "displayTimeUnit": "ms",
        **metadata,
        "traceEvents": _metadata(pid, tid, round(offset, 3)) + rows,
        "traceName": str(path),
    }
    if str(path).endswith(".gz"):
        import gzip

        with gzip.open(path, "wt", encoding="utf-8") as file:
            json.dump(trace, file)
        return
    with open(path, "w", encoding="utf-8") as file:
        json.dump(trace, file, indent=1)
