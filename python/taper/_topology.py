"""What `taper info` tells of the processors this process may use: cores, caches and NUMA nodes, as the system reports
them. Files are read below a root that tests can replace."""

import os


def cpus(text):
    """0-3,8 as a set of numbers."""
    found = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.strip().isdigit():
            found |= set(range(int(first), int(last or first) + 1))
    return found


def _read(root, name):
    try:
        with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _bytes(text):
    """32768K as a number of bytes; 0 for what is no size."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    digits = text.rstrip("KMG")
    return int(digits) * units.get(text[len(digits) :], 1) if digits.isdigit() else 0


def _caches(root, processors):
    """Level and kind -> (bytes of one, how many of them the processors have)."""
    found = {}
    for processor in processors:
        folder = f"sys/devices/system/cpu/cpu{processor}/cache"
        for index in range(8):
            here = f"{folder}/index{index}"
            level, kind = _read(root, f"{here}/level"), _read(root, f"{here}/type")
            size = _bytes(_read(root, f"{here}/size"))
            if not level or kind == "Instruction" or not size:
                continue
            shared = _read(root, f"{here}/shared_cpu_list") or str(processor)
            found.setdefault(int(level), {})[shared] = size
    return [
        {"level": level, "bytes": max(sizes.values()), "count": len(sizes)} for level, sizes in sorted(found.items())
    ]


def _nodes(root, processors):
    """NUMA nodes that have processors of this process: number, those processors, bytes of memory."""
    found = []
    for node in sorted(cpus(_read(root, "sys/devices/system/node/online"))):
        here = f"sys/devices/system/node/node{node}"
        mine = sorted(cpus(_read(root, f"{here}/cpulist")) & set(processors))
        total = [line.split()[-2] for line in _read(root, f"{here}/meminfo").splitlines() if "MemTotal" in line]
        if mine:
            found.append({"node": node, "processors": mine, "memory": int(total[0]) << 10 if total else None})
    return found


def topology(processors=None, root="/"):
    """The processors of this process, how many cores they are, their caches and their NUMA nodes."""
    processors = sorted(os.sched_getaffinity(0) if processors is None else processors)
    siblings = [
        _read(root, f"sys/devices/system/cpu/cpu{p}/topology/thread_siblings_list") or str(p) for p in processors
    ]
    return {
        "processors": processors,
        "cores": len(set(siblings)),
        "threads_of_a_core": sorted({siblings.count(core) for core in set(siblings)}),
        "caches": _caches(root, processors),
        "nodes": _nodes(root, processors),
    }


def _size(count):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count / 1024:.4g} KiB"


def ranges(numbers):
    """[0, 1, 2, 5] as 0-2,5."""
    parts = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def rows(found):
    """Lines of `taper info`: name and text."""
    fewest, most = found["threads_of_a_core"][0], found["threads_of_a_core"][-1]
    count = str(most) if fewest == most else f"{fewest} to {most}"
    each = f", {count} hardware threads each" if most > 1 else ""
    yield "cores", f"{found['cores']}{each} (processors {ranges(found['processors'])})"
    if found["caches"]:
        yield "caches", ", ".join(f"level {c['level']}: {c['count']} of {_size(c['bytes'])}" for c in found["caches"])
    for node in found["nodes"]:
        memory = f", {_size(node['memory'])}" if node["memory"] else ""
        yield f"NUMA node {node['node']}", f"processors {ranges(node['processors'])}{memory}"
