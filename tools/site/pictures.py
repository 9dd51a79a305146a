"""Draws pictures of docs/images from figures: `python tools/site/pictures.py`, by hand, when the figures change.

training.svg is the loss of `taper train digits`; benchmarks.svg the table of docs/performance.md; profile.svg what the
profiler says of a small network's training.
"""

import math
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
HEAD = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" font-family="system-ui, sans-serif" font-size="13" fill="#1c2430">'


def _write(name, lines):
    with open(os.path.join(ROOT, "docs", "images", name), "w", encoding="utf-8") as file:
        file.write("\n".join([*lines, "</svg>", ""]))


def training():
    """The loss of a short training, a point for every fifth step."""
    from taper._watch import Runs

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "taper", "train", "digits", "--out", folder, "--epochs", "3"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        runs = Runs([folder])
        runs.look()
        (run,) = runs
        points = run.curves["train/loss"][::5]
        accuracy = run.curves["test/accuracy"][-1][1]
    width, height, left, top = 720, 280, 60, 20
    low, high = (math.log10(f(value for _, value in points)) for f in (min, max))
    last = points[-1][0]

    def place(step, value):
        x = left + (width - left - 20) * step / last
        return f"{x:.1f} {top + (height - 60) * (high - math.log10(value)) / (high - low):.1f}"

    lines = [HEAD.format(width, height)]
    for value in (1, 0.1, 0.01):
        if low <= math.log10(value) <= high:
            y = place(0, value).split()[1]
            lines.append(f'<path d="M{left} {y}H{width - 20}" stroke="#e3e7ee"/>')
            lines.append(f'<text x="{left - 8}" y="{float(y) + 4}" text-anchor="end" fill="#667085">{value}</text>')
    path = "L".join(place(step, value) for step, value in points)
    lines.append(f'<path d="M{path}" fill="none" stroke="#0b6e4f" stroke-width="1.6"/>')
    lines.append(f'<text x="{left}" y="{height - 10}" fill="#667085">step 1</text>')
    lines.append(f'<text x="{width - 20}" y="{height - 10}" text-anchor="end" fill="#667085">step {last}</text>')
    text = f"taper train digits: loss of three epochs (log scale); test accuracy {accuracy:.1%}"
    lines.append(f'<text x="{width - 24}" y="{top + 12}" text-anchor="end">{text}</text>')
    _write("training.svg", lines)


def _bars(name, title, rows):
    """A picture with a bar for each row: what it is, its length as a share of the longest, its figure in words."""
    left, bar, width = 330, 24, 760
    lines = [HEAD.format(width, 40 + bar * len(rows))]
    lines.append(f'<text x="{left}" y="18" fill="#667085">{title}</text>')
    for i, (words, share, figure) in enumerate(rows):
        long = (width - left - 60) * share
        y = 30 + bar * i
        words = words.replace("`", "").replace("<", "&lt;")
        lines.append(f'<text x="{left - 10}" y="{y + 14}" text-anchor="end" font-size="12">{words}</text>')
        lines.append(f'<rect x="{left}" y="{y + 2}" width="{max(long, 2):.0f}" height="16" rx="3" fill="#0b6e4f"/>')
        lines.append(f'<text x="{left + long + 6:.0f}" y="{y + 15}" font-size="12">{figure}</text>')
    _write(name, lines)


def benchmarks():
    """How many times faster than PyTorch, a bar per row of docs/performance.md."""
    with open(os.path.join(ROOT, "docs", "performance.md"), encoding="utf-8") as file:
        table = re.search(r"\| workload \|.*?\n\n", file.read(), re.S)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().split("\n")[2:]]
    bars = [(name, math.log2(float(times)) / math.log2(20), times) for name, _, _, times in rows]
    _bars("benchmarks.svg", "times faster than PyTorch 2.15, two threads (log scale)", bars)


def profile():
    """Which operators take the time of a small network's training, forward and backward."""
    import taper
    from taper import nn
    from taper.profiler import profile as profiler

    taper.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 16 * 16, 10),
    )
    optimizer = taper.optim.Adam(net.parameters())
    images, labels = taper.randn(32, 3, 32, 32), taper.randint(10, (32,))

    def train(steps):
        for _ in range(steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images), labels).backward()
            optimizer.step()

    train(2)
    with profiler() as seen:
        train(20)
    rows = sorted(seen.key_averages(), key=lambda row: -row.self_cpu_time_total)
    whole = sum(row.self_cpu_time_total for row in rows)
    most = rows[0].self_cpu_time_total
    bars = [(row.key, row.self_cpu_time_total / most, f"{row.self_cpu_time_total / whole:.0%}") for row in rows[:10]]
    _bars("profile.svg", "share of the operators' time in a small network's training", bars)


if __name__ == "__main__":
    training()
    benchmarks()
    profile()
