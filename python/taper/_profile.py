"""`taper profile`: runs a script as `taper run` does and says where its time went: operators with their share, how much
of what the machine can do they reach, the memory they took, and how busy the threads were; and what GPUs did, by
operators and by kernels. The calling thread is watched; what others run counts as processor time alone."""

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


def _moves(name):
    """Does the operator itself go over memory? Views look at it, and compositions are made of others."""
    from taper import _C

    return _C._operator_kind(name) not in ("view", "compose")


class _Row:
    """One operator's calls, or one kernel's."""

    def __init__(self):
        self.calls = self.own = self.bytes = self.work = self.taken = self.device = 0
        self.dtype = None


class _Report:
    """What was recorded, by operators and by kernels. Times are nanoseconds; an operator that ran on a GPU is held
    against that GPU by the time of its kernels, and not by the host's."""

    def __init__(self, recorded, activities, shapes):
        import taper

        self.operators, self.kernels = {}, {}
        self.lower = taper.get_autocast_dtype(activities[0][2] if activities else "cpu")
        self.watched = self.busy = 0
        own = [entry[4] - entry[3] for entry in recorded]
        device = [0] * len(recorded)
        inner_work = [False] * len(recorded)
        casts = [False] * len(recorded)
        for i in range(len(recorded) - 1, -1, -1):
            name, kind, parent, start, end, *_, products = recorded[i]
            if parent >= 0:
                own[parent] -= end - start
                casts[parent] = casts[parent] or name == "to_dtype"
                inner_work[parent] = inner_work[parent] or inner_work[i] or products > 0
            else:
                self.watched += end - start
        for _, _, _, _, _, start, end, event, _ in activities:
            self.busy += end - start
            if event >= 0:
                device[event] += end - start
        amounts = [
            self._add_operator(entry, own[i], device[i], inner_work[i], casts[i], shapes)
            for i, entry in enumerate(recorded)
        ]
        for activity in activities:
            self._add_kernel(activity, device, amounts)

    def _add_operator(self, entry, own, device, inner_work, casts, shapes):
        """Counts one call; (bytes, floating-point operations, dtype) of what it did itself. casts: autocast gave it its
        arguments in the lower dtype."""
        name, kind, _, _, _, _, taken, inputs, _, _, products = entry
        tensors = list(_tensors(inputs))
        key = name + (
            " " + " ".join("x".join(map(str, shape)) or "()" for _, shape in tensors)
            if shapes and kind == _OPERATOR
            else ""
        )
        row = self.operators.setdefault(key, _Row())
        row.calls += 1
        row.own += own
        row.device += device
        row.taken += max(taken, 0)
        moved = work = 0
        if kind == _OPERATOR and own > 0 and _moves(name):
            moved = sum(_size(shape) * dtype.itemsize for dtype, shape in tensors) + max(taken, 0)
            work = 0 if inner_work else 2 * products
        dtype = self.lower if casts and work else tensors[0][0] if tensors else None
        row.bytes += moved
        row.work += work
        row.dtype = row.dtype or dtype
        return moved, work, dtype

    def _add_kernel(self, activity, device, amounts):
        """Counts one kernel: of what its operator did, the share that it has of the operator's time there."""
        name, _, _, _, _, start, end, event, nbytes = activity
        row = self.kernels.setdefault(name, _Row())
        row.calls += 1
        row.device += end - start
        if nbytes:
            row.bytes += 2 * nbytes  # read and written
        elif event >= 0 and device[event]:
            share = (end - start) / device[event]
            moved, work, dtype = amounts[event]
            row.bytes += share * moved
            row.work += share * work
            row.dtype = row.dtype or dtype


def _best(function, wait=None, rounds=7, times=1):
    """Seconds of one call, the quickest of the rounds."""
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(times):
            function()
        if wait is not None:
            wait()
        found.append((time.perf_counter() - begin) / times)
    return min(found)


class _Limits:
    """What a device reaches: bytes a second of a plain loop over memory, and floating-point operations a second of a
    product, for each dtype that is asked for. Measured, so that shares are of what can be had."""

    def __init__(self, kind):
        import taper

        self.kind = kind
        self.wait = None if kind == "cpu" else getattr(taper, kind).synchronize
        large = kind == "cuda"
        self.side, self.times = (4096, 5) if large else (512, 1)
        self._flops = {}
        with taper.no_grad():
            x = taper.ones(1 << (26 if large else 24), device=kind)
            y = taper.empty_like(x)
            taper.mul(x, 2, out=y)
            self._settle()
            self.bandwidth = 2 * 4 * x.numel() / _best(lambda: taper.mul(x, 2, out=y), self.wait, times=self.times)

    def _settle(self):
        if self.wait is not None:
            self.wait()

    def flops(self, dtype):
        import taper

        if dtype is None or not (dtype.is_floating_point or dtype.is_complex):
            dtype = taper.float32
        if dtype not in self._flops:
            with taper.no_grad():
                a = taper.ones(self.side, self.side, device=self.kind).to(dtype)
                a @ a
                self._settle()
                self._flops[dtype] = 2 * self.side**3 / _best(lambda: a @ a, self.wait, times=self.times)
        return self._flops[dtype]

    def text(self):
        products = ", ".join(
            f"{flops / 1e9:.0f} GFLOP/s in {str(dtype).partition('.')[2]}" for dtype, flops in self._flops.items()
        )
        return f"{self.bandwidth / 1e9:.1f} GB/s" + (f", {products}" if products else "")


def _rate(amount, seconds, most, width):
    """Two columns: so many billions a second, and their share of the most that there can be."""
    if not amount or not seconds:
        return " " * (width + 6)
    return f"{amount / seconds / 1e9:{width}.1f} {100 * amount / seconds / most:4.0f}%"


def _rates(row, nanoseconds, limits):
    seconds = nanoseconds / 1e9
    work = _rate(row.work, seconds, limits.flops(row.dtype) if row.work else 0, 8)
    return f"{_rate(row.bytes, seconds, limits.bandwidth, 7)} {work}"


_RATE_HEADS = f"{'GB/s':>7s} {'of it':>5s} {'GFLOP/s':>8s} {'of it':>5s}"


def _table(rows, top, time_of, head, line):
    """The rows that took most, by time_of, and the others in one."""
    ordered = sorted(rows.items(), key=lambda item: -time_of(item[1]))
    out = [head] + [f"{name[:40]:40s} {line(row)}" for name, row in ordered[:top]]
    if len(ordered) > top:
        left = sum(time_of(row) for _, row in ordered[top:])
        out.append(f"{f'{len(ordered) - top} others':40s} {'':8s} {left / 1e6:10.2f}")
    return out


def _report(recorded, activities, wall, processor, top, shapes):
    import taper

    found = _Report(recorded, activities, shapes)
    kind = activities[0][2] if activities else "cpu"
    limits = _Limits(kind)
    threads = taper.get_num_threads()

    def operator_line(row):
        spent = row.device if activities else row.own
        there = f"{row.device / 1e6:10.2f} " if activities else ""
        return (
            f"{row.calls:8d} {row.own / 1e6:10.2f} {100 * row.own / 1e9 / wall:5.1f}% {there}"
            f"{_rates(row, spent, limits)} {row.taken / 1e6:9.1f}"
        )

    def kernel_line(row):
        return (
            f"{row.calls:8d} {row.device / 1e6:10.2f} {100 * row.device / max(found.busy, 1):5.1f}% "
            f"{row.device / row.calls / 1e3:10.2f} {_rates(row, row.device, limits)}"
        )

    there = f" {'device ms':>10s}" if activities else ""
    head = f"{'operator':40s} {'calls':>8s} {'self ms':>10s} {'share':>6s}{there} {_RATE_HEADS} {'taken MB':>9s}"
    key = (lambda row: row.device or row.own) if activities else (lambda row: row.own)
    operators = _table(found.operators, top, key, head, operator_line)
    kernels = []
    if activities:
        head = f"{'kernel':40s} {'calls':>8s} {'device ms':>10s} {'share':>6s} {'each us':>10s} {_RATE_HEADS}"
        kernels = ["", *_table(found.kernels, top, lambda row: row.device, head, kernel_line)]
    out = [
        f"{wall:.3f} s; in operators {found.watched / 1e9:.3f} s ({100 * found.watched / 1e9 / wall:.0f}%), the rest "
        f"in Python and elsewhere; processors busy {processor / wall:.2f} of {threads} threads"
    ]
    if activities:
        name = getattr(taper, kind).get_device_name()
        out.append(f"the GPU busy {found.busy / 1e9:.3f} s ({100 * found.busy / 1e9 / wall:.0f}%)")
        out.append(f"the GPU, {name}: {limits.text()}")
    else:
        limits.flops(None)
        out.append(f"the machine with {threads} threads: {limits.text()}")
    return "\n".join([*out, "", *operators, *kernels])


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
    running = _C._profile_start(True, None, True)
    try:
        return run(options.script)
    finally:
        wall, processor = time.perf_counter() - begin, time.process_time() - busy
        _, recorded, activities = _C._profile_stop(running)
        try:
            sys.stdout.flush()
            if recorded:
                print("\n" + _report(recorded, activities, wall, processor, options.top, options.shapes), flush=True)
            else:
                print("taper profile: no operator ran in the main thread", file=sys.stderr)
        except BrokenPipeError:
            _end_by_pipe()
