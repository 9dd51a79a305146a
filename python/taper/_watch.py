"""`taper watch`: curves of event files in the terminal, once or as they grow."""

import fnmatch
import math
import os
import sys
import time

from taper import _C

_COLOURS = (36, 33, 35, 32, 34, 31)
_MARKS = "●○+x*#"
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # braille: [row][column] of a cell


class Run:
    """A folder with event files: the curves in it, and what is new at each look."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.readers, self.curves = {}, {}  # curves: tag -> [(step, value)]

    def look(self):
        """Reads what has come since the last time; did anything?"""
        found = False
        for file in sorted(name for name in os.listdir(self.folder) if "tfevents" in name):
            if file not in self.readers:
                self.readers[file] = _C._EventReader(os.path.join(self.folder, file))
            for tag, step, when, value in self.readers[file].read():
                found = True
                self.note(tag, step, when)
                if tag is None:
                    self.curves = {
                        tag: [point for point in points if point[0] < step] for tag, points in self.curves.items()
                    }
                else:
                    self.curves.setdefault(tag, []).append((step, value))
        return found

    def note(self, tag, step, when):
        """Called for every point; the page in the browser keeps the times."""

    @property
    def damaged(self):
        return sum(reader.damaged for reader in self.readers.values())


class Runs:
    """The runs below some folders; new ones are found at each look."""

    def __init__(self, roots, kind=Run):
        self.roots, self.runs, self.kind = roots, {}, kind

    def look(self):
        found = False
        for root in self.roots:
            for folder, _, files in os.walk(root):
                if folder not in self.runs and any("tfevents" in name for name in files):
                    self.runs[folder] = self.kind(self._name(root, folder), folder)
                    found = True
        return any([run.look() for run in self.runs.values()]) or found

    def _name(self, root, folder):
        below = os.path.relpath(folder, root)
        top = os.path.basename(os.path.abspath(root))
        return top if below == "." else os.path.join(top, below) if len(self.roots) > 1 else below

    def __iter__(self):
        return iter(sorted(self.runs.values(), key=lambda run: run.name))


# ---- Curves ----


def _smoothed(points, weight):
    """A running mean in which each step back counts `weight` times as much, as TensorBoard's slider does."""
    mean, total, result = 0.0, 0.0, []
    for step, value in points:
        if math.isfinite(value):
            mean, total = mean * weight + value * (1 - weight), total * weight + 1 - weight
            value = mean / total
        result.append((step, value))
    return result


def _drawable(points, options):
    """The points that can be drawn, by step: finite, and above zero on a logarithmic scale."""
    points = sorted(points, key=lambda point: point[0])
    if options.smooth:
        points = _smoothed(points, options.smooth)
    points = [(step, value) for step, value in points if math.isfinite(value) and (value > 0 or not options.log)]
    return [(step, math.log10(value)) for step, value in points] if options.log else points


class Canvas:
    """Dots in cells of braille, two by four; of each cell the last run that touched it is known."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.bits = [[0] * width for _ in range(height)]
        self.owner = [[-1] * width for _ in range(height)]

    def dot(self, x, y, run):
        cell_y, cell_x = y // 4, x // 2
        self.bits[cell_y][cell_x] |= _DOTS[y % 4][x % 2]
        self.owner[cell_y][cell_x] = run

    def line(self, x0, y0, x1, y1, run):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for i in range(steps + 1):
            self.dot(round(x0 + (x1 - x0) * i / steps), round(y0 + (y1 - y0) * i / steps), run)

    def row(self, y, colour, marks):
        """A row as text: braille, in the runs' colours, or their marks where there are several and no colours."""
        text, now = [], None
        for bits, run in zip(self.bits[y], self.owner[y]):
            if colour and bits and run != now:
                text.append(f"\x1b[{_COLOURS[run % len(_COLOURS)]}m")
                now = run
            text.append(" " if not bits else _MARKS[run % len(_MARKS)] if marks else chr(0x2800 + bits))
        return "".join(text) + ("\x1b[0m" if now is not None else "") if colour else "".join(text).rstrip()


def _extent(values):
    low, high = min(values), max(values)
    if low == high:
        pad = abs(low) * 0.1 or 1.0
        return low - pad, high + pad
    return low, high


def _columns(points, place):
    """Points as dots, with at most four to a column: the first, the extremes and the last."""
    by_column = {}
    for step, value in points:
        x, y = place(step, value)
        by_column.setdefault(x, []).append(y)
    for x, ys in sorted(by_column.items()):
        for y in ys if len(ys) <= 4 else (ys[0], min(ys), max(ys), ys[-1]):
            yield x, y


def chart(tag, curves, options, width, height, colour):
    """The lines of one chart: title, plot with scales, steps, and a legend if there are several runs. curves: [(name,
    points)]."""
    drawn = [(name, points, _drawable(points, options)) for name, points in curves]
    all_points = [point for _, _, points in drawn for point in points]
    title = f"{tag}{'  (log)' if options.log else ''}"
    if not all_points:
        return [
            title,
            "  nothing that can be drawn: no value is " + ("finite and above zero" if options.log else "finite"),
        ]
    left, right = min(step for step, _ in all_points), max(step for step, _ in all_points)
    right += left == right
    low, high = _extent([value for _, value in all_points])
    label = 11
    canvas = Canvas(max(width - label - 1, 10), height)
    dots_x, dots_y = 2 * canvas.width - 1, 4 * height - 1

    def place(step, value):
        return round((step - left) / (right - left) * dots_x), round((high - value) / (high - low) * dots_y)

    for number, (_, _, points) in enumerate(drawn):
        before = None
        for x, y in _columns(points, place):
            canvas.line(*(before or (x, y)), x, y, number)
            before = x, y
    marks = len(drawn) > 1 and not colour
    lines = [title if len(drawn) > 1 else f"{title}  {drawn[0][1][-1][1]:.6g} at step {drawn[0][1][-1][0]}"]
    named = {
        0: high,
        height - 1: low,
        (height - 1) // 2: high - (high - low) * (4 * ((height - 1) // 2) + 1.5) / dots_y,
    }
    for y in range(height):
        value = named.get(y)
        text = "" if value is None else f"{10**value if options.log else value:.4g}"
        lines.append(f"{text:>{label}}│{canvas.row(y, colour, marks)}")
    first, last = f"{left:.10g}", f"{right:.10g}"
    lines.append(" " * label + "└" + "─" * canvas.width)
    lines.append(" " * (label + 1) + first + last.rjust(canvas.width - len(first)))
    if len(drawn) > 1:
        for number, (name, points, _) in enumerate(drawn):
            mark = f"\x1b[{_COLOURS[number % len(_COLOURS)]}m━━\x1b[0m" if colour else _MARKS[number % len(_MARKS)]
            lines.append(" " * (label + 1) + f"{mark} {name}  {points[-1][1]:.6g} at step {points[-1][0]}")
    return lines


def charts(runs, options):
    """{tag: [(run's name, points)]} of the tags that are asked for."""
    found = {}
    for run in runs:
        for tag, points in run.curves.items():
            if points and _wanted(tag, options.tag):
                found.setdefault(tag, []).append((run.name, points))
    return dict(sorted(found.items()))


def _wanted(tag, patterns):
    return not patterns or any(
        fnmatch.fnmatchcase(tag, pattern if any(c in pattern for c in "*?[") else f"*{pattern}*")
        for pattern in patterns
    )


def page(runs, options, width, rows, colour):
    """All charts, or as many as fit into `rows` lines (0: no end)."""
    found, lines = charts(runs, options), []
    height = options.height or (8 if not rows else max(4, min(14, rows // max(len(found), 1) - 5)))
    for number, (tag, curves) in enumerate(found.items()):
        drawn = chart(tag, curves, options, width, height, colour) + [""]
        if rows and lines and len(lines) + len(drawn) > rows - 1:
            lines.append(f"and {len(found) - number} more tags; --tag PATTERN chooses")
            break
        lines += drawn
    if not found:
        lines.append("no scalars yet" + (f" with a tag like {' or '.join(options.tag)}" if options.tag else ""))
    lines += [
        f"{run.name}: {run.damaged} damaged record{'s' if run.damaged > 1 else ''}" for run in runs if run.damaged
    ]
    return lines


# ---- The command ----


def _weight(text):
    from argparse import ArgumentTypeError

    try:
        weight = float(text)
    except ValueError:
        weight = -1
    if not 0 <= weight < 1:
        raise ArgumentTypeError(f"expected a number from 0 to just below 1, got '{text}'")
    return weight


def arguments(parser):
    """Adds the options of `taper watch`."""
    add = parser.add_argument
    add("run", nargs="*", default=["runs"], help="folders with event files, or folders of such; runs unless given")
    add(
        "--tag",
        action="append",
        metavar="PATTERN",
        help="only tags that hold this, or match it with *; may be repeated",
    )
    add("--once", action="store_true", help="draw what is there and stop, as is done when the output is no terminal")
    add("--log", action="store_true", help="a logarithmic scale")
    add(
        "--smooth",
        type=_weight,
        default=0.0,
        metavar="WEIGHT",
        help="smooth the curves: a number from 0 to just below 1",
    )
    add("--interval", type=float, default=1.0, metavar="SECONDS", help="between looks at the files (1)")
    add("--width", type=int, default=0, help="in characters; the terminal's unless given")
    add("--height", type=int, default=0, help="of a chart, in lines")
    add(
        "--serve",
        nargs="?",
        type=int,
        const=6007,
        metavar="PORT",
        help="a page in the browser instead: curves, images, histograms, the machine, ranks; on this machine alone "
        "(port 6007; 0 takes a free one)",
    )


def _fail(text):
    print(f"taper watch: {text}", file=sys.stderr)
    return 1


def main(options):
    """Runs the command; the exit status."""
    for root in options.run:
        if not os.path.isdir(root):
            return _fail(
                f"there is no folder '{root}'" + ("; name the folder of the logs" if options.run == ["runs"] else "")
            )
    if options.serve is not None:
        from taper._watch_serve import serve

        return serve(options)
    live = sys.stdout.isatty() and not options.once
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    runs = Runs(options.run)
    try:
        runs.look()
        if not runs.runs and not live:
            return _fail(f"no event files (*tfevents*) in '{options.run[0]}'")
        _show(runs, options, colour, live)
        while live:
            time.sleep(max(options.interval, 0.05))
            if runs.look():
                _show(runs, options, colour, live)
    except KeyboardInterrupt:
        print()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _show(runs, options, colour, live):
    import shutil

    size = shutil.get_terminal_size()
    width = max(options.width or size.columns, 24)
    lines = page(runs, options, width, size.lines if live else 0, colour)
    if not runs.runs:
        lines = [f"no event files (*tfevents*) in '{options.run[0]}' yet; waiting"]
    sys.stdout.write(("\x1b[H\x1b[2J" if live else "") + "\n".join(lines) + "\n")
    sys.stdout.flush()
