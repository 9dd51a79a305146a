"""`taper names`: which of PyTorch's public names Taper has, by namespace, and those that a pattern picks."""

import sys
from importlib import import_module

from taper import _hook


def _owner(name):
    """Taper's module or class for one of PyTorch's, None where there is none."""
    module, attributes = _hook.taper_name(name), []
    while module:
        try:
            owner = import_module(module)
            break
        except ModuleNotFoundError:
            module, _, attribute = module.rpartition(".")
            attributes.insert(0, attribute)
    for attribute in attributes:
        owner = getattr(owner, attribute, None)
    return owner


def coverage():
    """namespace -> (names that are there, names that are not), in PyTorch's order; a namespace's modules are not among
    its names."""
    result = {}
    names = _hook.known()
    for owner in names:
        ours = _owner(owner)
        here, absent = [], []
        for name in sorted(names[owner]):
            if f"{owner}.{name}" not in names:
                (here if ours is not None and hasattr(ours, name) else absent).append(name)
        result[owner] = here, absent
    return result


def _matches(pattern, full):
    from fnmatch import fnmatchcase

    return (
        fnmatchcase(full, pattern)
        if any(c in pattern for c in "*?[")
        else pattern in full or pattern.replace("taper", "torch", 1) in full
    )


def _summary(table):
    started = [owner for owner in table if table[owner][0]]
    width = max(map(len, started))
    for owner in started:
        here, absent = table[owner]
        print(f"{owner:<{width}}  {len(here):>4} of {len(here) + len(absent)}")
    print(
        "\n"
        f"{sum(len(h) for h, _ in table.values())} names in {len(started)} of PyTorch's {len(table)} namespaces. With "
        "a pattern:"
    )
    print("taper names torch.linalg, taper names softmax, taper names 'torch.*_like'; - marks what is not there yet.")


def arguments(parser):
    """Adds what `taper names` takes."""
    parser.add_argument("pattern", nargs="*", help="part of a name, or a pattern with *; without one, counts")


def main(options):
    """Prints the counts, or what the patterns pick."""
    table = coverage()
    if not options.pattern:
        _summary(table)
        return 0
    picked = [
        (full, name in here)
        for owner, (here, absent) in table.items()
        for name in sorted(here + absent)
        for full in [f"{owner}.{name}"]
        if any(_matches(pattern, full) for pattern in options.pattern)
    ]
    for full, there in picked:
        print(f"{' ' if there else '-'} {full}")
    if not picked:
        print(f"taper names: PyTorch has no name that matches {' '.join(options.pattern)}", file=sys.stderr)
    return 0 if picked else 1
