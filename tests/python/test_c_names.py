"""The C API's verbs and orders of arguments, as docs/abi.md promises them: read from the headers."""

import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "include" / "taper"


def _declarations():
    """(result, name, arguments) of every function in the headers that are written by hand."""
    text = "\n".join(path.read_text() for path in sorted(SOURCE.glob("*.h")))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = re.findall(r"TP_API\s+([^;{}()]*?)\b(tp_\w+)\(([^;{}]*?)\)[^;{}()]*;", text)
    assert len(found) > 500
    split = re.compile(r",(?![^(]*\))")
    return text, [
        (r.strip(), name, [a.strip() for a in split.split(" ".join(args.split()))]) for r, name, args in found
    ]


TEXT, DECLARATIONS = _declarations()
NAMES = {name for _, name, _ in DECLARATIONS}
TYPES = set(re.findall(r"typedef struct (tp_\w+) \1;", TEXT))


def _type_of(result):
    return result.replace("const ", "").rstrip("* ").strip()


def test_what_is_counted_is_released_and_what_has_one_owner_is_freed():
    counted = {name[: -len("_retain")] for name in NAMES if name.endswith("_retain")}
    assert {"tp_module", "tp_storage", "tp_dataset", "tp_store", "tp_node", "tp_compiled"} <= counted
    released = {name[: -len("_release")] for name in NAMES if name.endswith("_release")}
    # the library holds the other share of a collective that is under way; a packed sequence is of counted tensors
    assert released - counted == {"tp_work", "tp_packed"}
    assert counted <= released
    freed = {name[: -len("_free")] for name in NAMES if name.endswith("_free")}
    assert not freed & released


def test_what_is_made_can_be_ended():
    for result, name, _ in DECLARATIONS:
        made = _type_of(result)
        if made == "tp_tensor":
            continue  # tp_retain and tp_release
        if name.endswith(("_new", "_new_with")) and made in TYPES:
            assert {f"{made}_free", f"{made}_release"} & NAMES, name


def test_no_other_verb_ends():
    for name in NAMES:
        assert not name.endswith(("_destroy", "_dispose", "_delete", "_drop")) or name == "tp_store_delete"
        if name.endswith("_close"):
            opened = name[: -len("_close")]
            assert {f"{opened}_open", f"{opened}_open_with", f"{opened}_create"} & NAMES, name


def test_a_types_functions_take_it_first():
    for result, name, args in DECLARATIONS:
        of = max((t for t in TYPES if name.startswith(t + "_")), key=len, default=None)
        if of is None or _type_of(result) == of or of in ("tp_stream", "tp_sparse"):
            continue  # a maker; streams come with their device before them; sparse products take plain tensors
        if any(re.match(rf"(const )?{of} \*", a) for a in args):
            assert re.match(rf"(const )?{of} \*", args[0]), f"{name}({', '.join(args)})"


def test_counts_come_before_lists():
    for _, name, args in DECLARATIONS:
        for before, after in zip(args, args[1:]):
            if re.match(r"(int64_t|int|size_t) (n|count)$", after) and re.search(
                r"\*const \*|\w \*\w+s$|\[\]$", before
            ):
                assert before.startswith(("const void *", "void *", "const char *data")), f"{name}({', '.join(args)})"


def test_options_come_last():
    seen = 0
    for _, name, args in DECLARATIONS:
        options = [place for place, a in enumerate(args) if re.match(r"const tp_\w+_options \*", a)]
        if options and name.endswith("_with"):
            assert options == [len(args) - 1], f"{name}({', '.join(args)})"
            seen += 1
    assert seen > 10
