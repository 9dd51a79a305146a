"""Which processors each process of a node gets. The launcher's own mask (what srun --cpu-bind, mpiexec --cpu-bind, a
cgroup or taskset left to it) is divided; nobody gets a processor outside of it unless a list or mask names it."""

import os
import re


def _parts(processors, count):
    """Neighbours stay together; the first ones get what does not divide. More processes than processors share them in
    turn."""
    n = len(processors)
    if count > n:
        return [[processors[i % n]] for i in range(count)]
    return [processors[i * n // count : (i + 1) * n // count] for i in range(count)]


def _ranges(text):
    """0-3,8 as [0, 1, 2, 3, 8]."""
    found = []
    for part in text.split(","):
        if not re.fullmatch(r"\d+(-\d+)?", part):
            raise SystemExit(f"taper launch: --cpu-bind: expected processors as 0-3,8, got '{part}'")
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _bits(text):
    try:
        mask = int(text, 16)
    except ValueError:
        raise SystemExit(f"taper launch: --cpu-bind: expected masks as 0xff, got '{text}'") from None
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def _numa(processors, count):
    """Each process on the processors of one NUMA node, nodes in order, processes of one node sharing it."""
    nodes, root = [], "/sys/devices/system/node"
    for name in (
        sorted((name for name in os.listdir(root) if re.fullmatch(r"node\d+", name)), key=lambda name: int(name[4:]))
        if os.path.isdir(root)
        else ()
    ):
        with open(f"{root}/{name}/cpulist", encoding="utf-8") as file:
            text = file.read().strip()
        here = [processor for processor in (_ranges(text) if text else ()) if processor in processors]
        if here:
            nodes.append(here)
    if not nodes:
        return [processors] * count
    return [nodes[i * len(nodes) // count] for i in range(count)]


def _spoken(how):
    """Slurm's and PALS's `verbose,` and `quiet,` in front of the binding: whether it is to be told, and the rest."""
    word, comma, rest = how.partition(",")
    return (word in ("verbose", "v"), rest) if comma and word in ("verbose", "v", "quiet", "q") else (False, how)


def described(how, bound):
    """Lines that tell each process's processors, where the binding asks for that."""
    from taper._topology import ranges

    if not _spoken(how)[0]:
        return []
    return [
        f"local rank {i}: processors {ranges(sorted(given or os.sched_getaffinity(0)))}"
        for i, given in enumerate(bound)
    ]


def binding(how, count):
    """For each of `count` processes the processors it is bound to, or None where they are left as they are."""
    processors = sorted(os.sched_getaffinity(0))
    how = _spoken(how)[1]
    kind, _, text = how.partition(":")
    kind = {"map_cpu": "list", "mask_cpu": "mask", "core": "cores", "auto": "cores"}.get(kind, kind)
    if kind == "none":
        return [None] * count
    if kind == "cores":
        return _parts(processors, count)
    if kind == "numa":
        return _numa(processors, count)
    if kind in ("list", "mask"):
        slurm = how.startswith(("map_cpu", "mask_cpu"))  # Slurm separates processes by commas, PALS by colons
        given = [
            (_ranges if kind == "list" else _bits)(part)
            for part in text.split("," if slurm or kind == "mask" and ":" not in text else ":")
        ]
        absent = sorted({processor for part in given for processor in part} - set(range(os.cpu_count())))
        if absent:
            raise SystemExit(
                f"taper launch: --cpu-bind: this node has no processor {absent[0]}: its last one is "
                f"{os.cpu_count() - 1}"
            )
        return [given[i % len(given)] for i in range(count)]
    raise SystemExit(
        f"taper launch: --cpu-bind: expected none, cores, numa, list:0-7:8-15 or mask:0xff:0xff00, got '{how}'"
    )


def threads(bound, count):
    """Threads of one process: its share of the processors."""
    return max(1, len(bound) if bound else len(os.sched_getaffinity(0)) // count)
