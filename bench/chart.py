"""Bars of how many times faster the first side is: in a terminal, and as a PNG where matplotlib is there."""

import math

WIDTH = 40
MOST = 16.0


def bar(ratio):
    """From 1/16 to 16 times, on a logarithmic scale, with a mark at one."""
    at = round((math.log2(min(max(ratio, 1 / MOST), MOST)) / math.log2(MOST) + 1) / 2 * WIDTH)
    half = WIDTH // 2
    if at >= half:
        return " " * half + "|" + "#" * (at - half)
    return " " * at + "-" * (half - at) + "|"


def terminal(ratios):
    widest = max(map(len, ratios))
    return "\n".join(f"{name:{widest}s} {ratio:7.2f}x {bar(ratio)}" for name, ratio in ratios.items())


def png(path, ratios, title):
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    names, values = list(ratios)[::-1], list(ratios.values())[::-1]
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.24 * len(names)))
    axes.barh(
        names,
        [value - 1 for value in values],
        left=1,
        color=["#2b7a4b" if value >= 1 else "#b5402a" for value in values],
    )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_title(title, fontsize=10)
    axes.tick_params(labelsize=8)
    for at, value in enumerate(values):
        axes.text(max(value, 1) * 1.05, at, f"{value:.2f}", va="center", fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return True
