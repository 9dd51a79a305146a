"""Reads the public headers and writes a call of each function for tests/every_function_test.c: `every_function.py
OUTPUT HEADER...`.

A call takes its arguments from the kit that the test prepares for a mode: nothing at all, things with zeros, things
with extreme numbers, broken lists. A parameter of a type that is not known here stops the build, so that a new function
cannot go untested."""

import re
import sys

# Types whose values the kit holds by that name.
KIT = {
    "bool": "k->truth",
    "int": "k->i",
    "int64_t": "k->n",
    "uint64_t": "(uint64_t)k->n",
    "size_t": "k->capacity",
    "double": "k->d",
    "tp_ints": "k->ints",
    "tp_floats": "k->floats",
    "tp_scalars": "k->scalars",
    "tp_scalar": "k->scalar",
    "tp_tensors": "k->tensors",
    "tp_operand": "k->operand",
    "tp_device": "k->device",
    "tp_state": "kit_state(k)",
    "tp_packed": "k->packed",
}
# Things that the kit makes where the mode has things.
MADE = [
    "tensor",
    "storage",
    "module",
    "optimiser",
    "generator",
    "dataset",
    "reader",
    "sampler",
    "sparse",
    "tokenizer",
    "distribution",
    "transform",
    "scaler",
    "loader",
    "schedule",
    "file",
    "summary",
    "store",
    "node",
    "lbfgs_memory",
    "events",
    "records",
    "capture",
    "compiled",
    "profile",
    "mark",
    "gpu_graph",
    "optimiser_kind",
    "ivalue",
    "event_file",
    "group",
    "work",
    "ddp",
    "fsdp",
    "pipeline",
    "mesh",
    "reducer",
]
# Those of them that the caller does not end.
ENDLESS = {"optimiser_kind", "capture", "mark"}
# Arrays whose length another argument says.
ARRAYS = {
    "tp_shard",
    "tp_field",
    "tp_hparam",
    "tp_chart",
    "tp_update_group",
    "tp_value",
    "tp_checkpoint_box",
    "tp_box_place",
}
# Memory that only the library hands out, and things that only a job or its callbacks have: NULL is all that can be
# tried.
NEVER = {
    "void",
    "struct DLManagedTensor",
    "tp_stream",
    "tp_saving",
    "tp_function_call",
    "tp_trace_hooks",
    "tp_saved",
    "tp_sink",
    "FILE",
}


def declarations(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^\s*#(?:[^\n\\]|\\\n|\\.)*", " ", text, flags=re.M)
    for found in re.finditer(r"\bTP_API\s+([^;{]*);", text):
        yield " ".join(found.group(1).split())


def split(parameters):
    """Parameters at the commas outside of parentheses."""
    depth, start = 0, 0
    for i, c in enumerate(parameters):
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            yield parameters[start:i].strip()
            start = i + 1
    yield parameters[start:].strip()


def value(function, parameter, counted):
    """`counted`: an argument says how long an array is, so that only NULL is a lie that can be seen through."""
    if (
        "(" in parameter
        or parameter.split()[0].endswith("_fn")
        or parameter.split()[0] in ("tp_forward_function", "tp_context_visitor")
    ):
        return "0"  # a callback: there is none
    kind = re.sub(r"\b(\w+)$", "", parameter).strip()
    bare = re.sub(r"\bconst\b", "", kind).replace(" ", "")
    stars = bare.count("*")
    name = re.sub(r"\bconst\b|\*", "", kind).strip()
    if function == "tp_release_all":
        return "(tp_tensors){NULL, 0}"  # the array is the library's own
    if not stars:
        if parameter.endswith((" timeout", " seconds")):
            return "fmin(k->d, 0.01)"  # it may wait as long as it is told to
        if name in KIT:
            return KIT[name]
        return f"({name})k->choice"  # an enumeration
    if stars > 1 and counted:
        return "NULL"
    if stars > 1:
        return "(void *)k->array" if "*const *" not in kind and "const *const" not in kind else "NULL"
    if name == "char":
        return "k->text" if "const" in kind else "NULL" if "free" in function else "(char *)k->array"
    if name in NEVER or name in ARRAYS:
        return "NULL"
    if name.startswith("tp_") and name[3:] in MADE:
        return f"(void *)kit_{name[3:]}(k)"
    if (
        name in ("int64_t", "double", "bool", "int", "uint64_t", "size_t", "tp_dtype", "tp_ints", "tp_device")
        and "const" not in kind
    ):
        return "(void *)k->array"
    if name in ("int64_t", "double", "bool", "unsigned char"):
        return "NULL"  # an array, whose length another argument says
    if name in ("tp_graph_node", "tp_grad_mode"):  # read as they are, truths in them too
        return "(void *)k->zeros"
    if name.startswith("tp_"):
        return "(void *)k->record"  # options and the like: they begin with their size
    sys.exit(f"every_function.py: {function}: what to give for '{parameter}'?")


def ended_kinds(values):
    """The kinds of things among a call's arguments that a program ends: "tensor generator "."""
    kinds = re.findall(r"kit_(\w+)\(k\)", " ".join(values))
    return "".join(f"{kind} " for kind in dict.fromkeys(kinds) if kind not in ENDLESS)


def main():
    calls = []
    seen = set()
    for path in sys.argv[2:]:
        for text in declarations(open(path).read()):
            found = re.match(r"(.*?)\b(tp_\w+)\s*\((.*)\)\s*(?:TP_\w+\(.*\))?$", text)
            if not found or found.group(2) in seen:
                continue
            function, parameters = found.group(2), found.group(3)
            seen.add(function)
            values = (
                []
                if parameters == "void"
                else [value(function, p, bool(re.search(r"\bint64_t n", parameters))) for p in split(parameters)]
            )
            calls.append((function, f"(void)(({function})({', '.join(values)}))", ended_kinds(values)))
    with open(sys.argv[1], "w") as out:
        out.write(
            "/* A call of every public function. Written by tests/every_function.py from the headers: do not edit. */\n"
        )
        for function, call, _ in calls:
            out.write(f"static void call_{function}(kit *k) {{\n    (void)k;\n    {call};\n}}\n")
        out.write(
            "static const struct {\n    const char *name;\n    void (*call)(kit *k);\n    const char *ended;\n} functions[] = {\n"
        )
        out.writelines(f'    {{"{function}", call_{function}, "{ended}"}},\n' for function, _, ended in calls)
        out.write("};\n")


if __name__ == "__main__":
    main()
