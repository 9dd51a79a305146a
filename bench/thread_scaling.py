"""The picture and the table of docs/performance.md: operators at 1 to 16 threads, from the figures that were recorded in
thread_scaling.json (`taper info --scaling` and the same rows under PyTorch).

    python bench/thread_scaling.py    writes docs/images/thread_scaling.svg and prints the table
"""

import json
import math
import os

HERE = os.path.dirname(os.path.abspath(__file__))
PANEL, GAP, COLUMNS, LEFT, TOP = 190, 34, 4, 40, 54
COLOURS = {"taper": "#2b7a4b", "pytorch 2.11": "#b5402a"}


def point(column, row, threads, times, most):
    """Where a number of threads and how many times faster it is than one thread is drawn."""
    x = LEFT + column * (PANEL + GAP) + math.log2(threads) / math.log2(most) * PANEL
    y = TOP + row * (PANEL + GAP + 16) + PANEL - math.log2(max(times, 1)) / math.log2(2 * most) * PANEL
    return f"{x:.1f},{y:.1f}"


def panel(at, name, found):
    """One operator: the speed-up of both sides over one thread of their own, and a line where it would be ideal."""
    column, row, threads = at % COLUMNS, at // COLUMNS, found["threads"]
    most = threads[-1]
    x, y = LEFT + column * (PANEL + GAP), TOP + row * (PANEL + GAP + 16)
    yield f'<rect x="{x}" y="{y}" width="{PANEL}" height="{PANEL}" fill="none" stroke="#999"/>'
    yield f'<text x="{x}" y="{y - 5}">{name}</text>'
    ideal = " ".join(point(column, row, n, n, most) for n in threads)
    yield f'<polyline points="{ideal}" fill="none" stroke="#bbb" stroke-dasharray="4 3"/>'
    for side, colour in COLOURS.items():
        times = found[side][name]
        line = " ".join(point(column, row, n, times[0] / time, most) for n, time in zip(threads, times))
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for n in threads:
        at_x, at_y = point(column, row, n, n, most).split(",")
        yield f'<text x="{at_x}" y="{y + PANEL + 12}" text-anchor="middle">{n}</text>'
        if column == 0:
            yield f'<text x="{x - 4}" y="{at_y}" text-anchor="end">{n}x</text>'


def picture(found):
    names = list(found["taper"])
    width = LEFT + COLUMNS * (PANEL + GAP)
    height = TOP + math.ceil(len(names) / COLUMNS) * (PANEL + GAP + 16)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">Times faster than one thread, {found["machine"]}</text>',
    ]
    for k, (side, colour) in enumerate(COLOURS.items()):
        parts.append(f'<text x="{LEFT + 90 * k}" y="36" fill="{colour}">{side}</text>')
    for at, name in enumerate(names):
        parts += panel(at, name, found)
    return "\n".join([*parts, "</svg>", ""])


def table(found):
    lines = ["| microseconds | side | " + " | ".join(map(str, found["threads"])) + " |"]
    lines.append("|---|---|" + "---:|" * len(found["threads"]))
    for name, ours in found["taper"].items():
        lines.append(f"| {name} | Taper | " + " | ".join(f"{t:,}" for t in ours) + " |")
        lines.append("| | PyTorch | " + " | ".join(f"{t:,}" for t in found["pytorch 2.11"][name]) + " |")
    return "\n".join(lines)


def main():
    with open(os.path.join(HERE, "thread_scaling.json"), encoding="utf-8") as file:
        found = json.load(file)
    with open(os.path.join(HERE, "..", "docs", "images", "thread_scaling.svg"), "w", encoding="utf-8") as file:
        file.write(picture(found))
    print(table(found))


if __name__ == "__main__":
    main()
