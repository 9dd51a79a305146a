"""Sizes as tuples: one number serves for all dims."""


def _ntuple(n, name="parse"):
    def times(x):
        return tuple(x) if hasattr(x, "__iter__") else (x,) * n

    times.__name__ = name
    return times


_single, _pair, _triple, _quadruple, _sextuple = (
    _ntuple(n, name) for n, name in ((1, "_single"), (2, "_pair"), (3, "_triple"), (4, "_quadruple"), (6, "_sextuple"))
)


def _reverse_repeat_tuple(t, n):
    """(1, 2), 2 to (2, 2, 1, 1)."""
    return sum(((x,) * n for x in t[::-1]), ())


def _list_with_default(out_size, defaults):
    """A size with None filled in from the last of the defaults."""
    if isinstance(out_size, int):
        return out_size
    n = len(out_size)
    if n >= len(defaults):
        raise ValueError(f"Input dimension should be at least {n + 1}")
    return [d if v is None else v for v, d in zip(out_size, defaults[-n:])]


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Takes a prefix ("module.") off the names of a state, in place."""
    _rename(state_dict, prefix, prefix)
    _rename(getattr(state_dict, "_metadata", None) or {}, prefix, prefix[:-1])


def _rename(entries, prefix, shortest):
    """Takes the prefix off keys that have it, or have as much of it as shortest says."""
    for key in [key for key in entries if key and (key == shortest or key.startswith(prefix))]:
        entries[key[len(prefix) :]] = entries.pop(key)
