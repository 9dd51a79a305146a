"""`taper info --scaling`: operators at 1, 2, 4, ... threads on this machine. Memory binds some of them, computing
others: what does not grow with threads tells which. Rounds over the counts go by turns, and the best round counts."""

import time

# name: what binds it; a function of the module that makes the call
ROWS = {
    "add of 4M floats": lambda t: _binary(t, "add", 1 << 22),
    "exp of 4M floats": lambda t: _unary(t, "exp", 1 << 22),
    "sum of 4M floats": lambda t: _unary(t, "sum", 1 << 22),
    "softmax, 2048 rows of 1024": lambda t: _call(t.softmax, t.rand(2048, 1024), 1),
    "layer_norm, 2048 rows of 1024": lambda t: _call(t.nn.functional.layer_norm, t.rand(2048, 1024), (1024,)),
    "float32 product, 1024 cubed": lambda t: _product(t, "float32", 1024),
    "float64 product, 512 cubed": lambda t: _product(t, "float64", 512),
    "bfloat16 product, 1024 cubed": lambda t: _product(t, "bfloat16", 1024),
}


def _call(function, *arguments):
    return lambda: function(*arguments)


def _unary(t, name, count):
    return _call(getattr(t, name), t.rand(count))


def _binary(t, name, count):
    return _call(getattr(t, name), t.rand(count), t.rand(count))


def _product(t, dtype, size):
    return _call(t.mm, t.rand(size, size).to(getattr(t, dtype)), t.rand(size, size).to(getattr(t, dtype)))


def counts_up_to(most):
    """1, 2, 4, ... and the most."""
    found = [1]
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    return found if found[-1] == most else [*found, most]


def _best(call, seconds):
    """Seconds of the quickest call within some time."""
    call()
    best, spent = float("inf"), 0.0
    while spent < seconds:
        start = time.perf_counter()
        call()
        taken = time.perf_counter() - start
        best = min(best, taken)
        spent += taken
    return best


def measure(counts=None, rounds=3, seconds=0.05, rows=None):
    """Microseconds of each row at each number of threads."""
    import taper

    before = taper.get_num_threads()
    counts = counts_up_to(before) if counts is None else counts
    found = {}
    try:
        for name, make in (ROWS if rows is None else rows).items():
            call = make(taper)
            best = dict.fromkeys(counts, float("inf"))
            for _ in range(rounds):
                for count in counts:
                    taper.set_num_threads(count)
                    best[count] = min(best[count], _best(call, seconds))
            found[name] = {str(count): round(1e6 * best[count], 1) for count in counts}
    finally:
        taper.set_num_threads(before)
    return found


def table(found):
    """Lines: microseconds at each number of threads, and how many times faster the most are than one."""
    counts = list(next(iter(found.values())))
    lines = [f"{'microseconds, threads:':<32}" + "".join(f"{count:>10}" for count in counts) + f"{'times':>8}"]
    for name, times in found.items():
        cells = "".join(f"{times[count]:>10,.0f}" for count in counts)
        lines.append(f"{name:<32}{cells}{times[counts[0]] / times[counts[-1]]:>8.1f}")
    return "\n".join(lines)
