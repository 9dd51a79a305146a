"""`taper profile`: runs a script as `taper run` does and says where its time went: operators with their share, how much
of what the machine can do they reach, the memory they took, and how busy the threads were. The calling thread is
watched; what others run counts as processor time alone."""

import sys
import time

_OPERATOR, _BACKWARD = 0, 1


def _size(shape):
    count = 1
    for n in shape:
        count *= n
    return count


def _tensors(inputs):
    """(dtype, shape) of every tensor among an event's inputs, those of lists too."""
    for entry in inputs:
        if isinstance(entry, list):
            yield from _tensors(entry)
        elif isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[1], tuple):
            yield entry


def _work(name, inputs):
    """Multiplications and additions of operators that are products; 0 for the rest."""
    shapes = [shape for _, shape in _tensors(inputs)]
    if name == "convolution" and len(shapes) > 1:
        from taper.autograd.profiler_util import _convolution_flops

        return (
            _convolution_flops(shapes, inputs[3:6])
            if inputs[6] is None
            else 2 * _size(shapes[0]) * _size(shapes[1][1:])
        )
    if name == "convolution_grad_input":
        return 2 * _size(shapes[0]) * _size(shapes[1][1:])
    if name == "convolution_grad_weight":
        return 2 * _size(shapes[0]) * _size(inputs[2][1:])
    if name in ("attention_forward", "attention_backward") and len(shapes) > 2:
        query, key = shapes[:2] if name == "attention_forward" else shapes[1:3]
        return (4 if name == "attention_forward" else 10) * _size(query) * key[-2]
    if name in ("lstm_layer", "lstm_layer_back"):
        gates = (
            shapes[0] if name == "lstm_layer" else next(shape for shape in shapes if len(shape) == 2 and shape[0] > 1)
        )
        return 2 * _size(gates) * (gates[1] // 4 if name == "lstm_layer" else 8 * gates[1])
    if name in ("add", "mul"):
        return 0  # memory binds them
    from taper.autograd.profiler_util import _flops

    return _flops(name, inputs)


def _moves(name):
    """Does the operator itself go over memory? Views look at it, and compositions are made of others."""
    from taper import _C

    return _C._operator_kind(name) not in ("view", "compose")


class _Row:
    """One operator's calls."""

    def __init__(self):
        self.calls = self.own = self.bytes = self.work = self.taken = 0


def _rows(recorded, shapes):
    """Rows by name, and the nanoseconds that everything watched took together."""
    own = [end - start for _, _, _, start, end, *_ in recorded]
    inner_work = [False] * len(recorded)
    watched = 0
    for i in range(len(recorded) - 1, -1, -1):
        name, kind, parent, start, end, _, _, inputs, _ = recorded[i]
        if parent >= 0:
            own[parent] -= end - start
            inner_work[parent] = (
                inner_work[parent]
                or inner_work[i]
                or (kind == _OPERATOR and bool(_work(name.partition(".")[0], inputs)))
            )
        else:
            watched += end - start
    rows = {}
    for i, (name, kind, _, _, _, _, taken, inputs, _) in enumerate(recorded):
        tensors = list(_tensors(inputs))
        key = name + (
            " " + " ".join("x".join(map(str, shape)) or "()" for _, shape in tensors)
            if shapes and kind == _OPERATOR
            else ""
        )
        row = rows.setdefault(key, _Row())
        row.calls += 1
        row.own += own[i]
        row.taken += max(taken, 0)
        if kind == _OPERATOR and own[i] > 0 and _moves(name):
            row.bytes += sum(_size(shape) * dtype.itemsize for dtype, shape in tensors) + max(taken, 0)
            row.work += 0 if inner_work[i] else _work(name.partition(".")[0], inputs)
    return rows, watched


def _best(function, rounds=7):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)


def _machine():
    """What this machine reaches: bytes a second of a plain loop over memory, and floating-point operations a second of
    a product."""
    import taper

    with taper.no_grad():
        x, y, a = taper.ones(1 << 24), taper.empty(1 << 24), taper.ones(512, 512)
        taper.mul(x, 2, out=y)
        bandwidth = 2 * 4 * x.numel() / _best(lambda: taper.mul(x, 2, out=y))
        return bandwidth, 2 * 512**3 / _best(lambda: a @ a)


def _accelerators():
    """Kinds of devices that something was put on. What runs there is held against nothing: this machine's processors
    are no measure of it."""
    import taper

    used = []
    for kind in ("cuda", "xpu"):
        device = getattr(taper, kind)
        if device.is_initialized() and any(
            device.memory_stats(i).get("allocation.all.allocated", 0) for i in range(device.device_count())
        ):
            used.append(kind)
    return used


def _rate(amount, seconds, most, width):
    """Two columns: so many billions a second, and their share of the most that there can be (0: nobody knows)."""
    if not amount:
        return " " * (width + 6)
    share = f"{100 * amount / seconds / most:4.0f}%" if most else "    -"
    return f"{amount / seconds / 1e9:{width}.1f} {share}"


def _report(recorded, wall, processor, top, shapes):
    import taper

    rows, watched = _rows(recorded, shapes)
    away = _accelerators()
    bandwidth, flops = (0, 0) if away else _machine()
    machine = (
        f"{bandwidth / 1e9:.1f} GB/s, {flops / 1e9:.0f} GFLOP/s"
        if not away
        else f"not measured, for work went to {' and '.join(away)}"
    )
    threads = taper.get_num_threads()
    out = [
        f"{wall:.3f} s; in operators {watched / 1e9:.3f} s ({100 * watched / 1e9 / wall:.0f}%), the rest in Python "
        f"and elsewhere; processors busy {processor / wall:.2f} of {threads} threads",
        f"the machine with {threads} threads: {machine}",
        "",
        f"{'operator':40s} {'calls':>8s} {'self ms':>10s} {'share':>6s} {'GB/s':>7s} {'of it':>5s} {'GFLOP/s':>8s} "
        f"{'of it':>5s} {'taken MB':>9s}",
    ]
    ordered = sorted(rows.items(), key=lambda item: -item[1].own)
    for name, row in ordered[:top]:
        seconds = max(row.own, 1) / 1e9
        rate, speed = _rate(row.bytes, seconds, bandwidth, 7), _rate(row.work, seconds, flops, 8)
        out.append(
            f"{name[:40]:40s} {row.calls:8d} {row.own / 1e6:10.2f} {100 * seconds / wall:5.1f}% {rate} {speed} "
            f"{row.taken / 1e6:9.1f}"
        )
    if len(ordered) > top:
        left = sum(row.own for _, row in ordered[top:])
        out.append(f"{f'{len(ordered) - top} others':40s} {'':8s} {left / 1e6:10.2f} {100 * left / 1e9 / wall:5.1f}%")
    return "\n".join(out)


def _end_by_pipe():
    """Nobody reads on (`| head`): the process ends as others do then, by the signal and without a word."""
    import os
    import signal

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)


def arguments(parser):
    """Adds the options of `taper profile`."""
    parser.usage = "taper profile [--top N] [--shapes] [script.py | -m module | -c command | -] [arguments]"
    parser.add_argument("--top", type=int, default=20, metavar="N", help="how many operators to show (20)")
    parser.add_argument("--shapes", action="store_true", help="tell calls on different shapes apart")


def main(options):
    """Runs the script of the options, and reports; the script's exit status."""
    from taper import _C
    from taper._run import run

    begin, busy = time.perf_counter(), time.process_time()
    running = _C._profile_start(True, None)
    try:
        return run(options.script)
    finally:
        wall, processor = time.perf_counter() - begin, time.process_time() - busy
        _, recorded = _C._profile_stop(running)
        try:
            sys.stdout.flush()
            if recorded:
                print("\n" + _report(recorded, wall, processor, options.top, options.shapes), flush=True)
            else:
                print("taper profile: no operator ran in the main thread", file=sys.stderr)
        except BrokenPipeError:
            _end_by_pipe()
