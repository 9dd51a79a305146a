"""Facts about operators stand in their stanzas (docs/tables.md), so no code of the folders below compares an operator's
name with a text, lists operators by name, or knows one by its record or kernel (tpi_map_NAME, tpk_NAME,
== TPI_OPERATOR(NAME)). Calls by name are fine."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("src/device", "src/dispatch", "src/graph", "src/autograd", "src/nn", "src/optim", "python/ext")

# Words that are operators' names too, and mean something else where they stand.
OTHER_MEANINGS = {
    "python/ext/arguments.c": {"bool", "int", "float", "complex"},  # NumPy's scalar types
    "python/ext/array.c": {"bool", "bool_", "copy", "H"},  # NumPy's dtypes and formats; an argument of __array__
    "python/ext/autograd.c": {"gradient"},  # an argument of backward()
    "python/ext/convert.c": {"copy"},  # an argument of to()
    "python/ext/operator.c": {"bool", "int", "float", "view"},  # types of arguments; a kind of operator
    "python/ext/proven.c": {"copy"},  # a module of Python's library
    "python/ext/settings.c": {"to"},  # an argument of can_cast()
    "python/ext/types.c": {
        "half",
        "chalf",
        "float",
        "double",
        "short",
        "int",
        "long",
        "cfloat",
        "cdouble",
        "index",
    },  # dtypes
    "src/autograd/inplace.c": {"copy_"},  # the node of an in-place copy, for messages
    "src/device/gpu/copy.c": {"float", "double"},  # types of C
    "src/device/gpu/map_text.c": {"float", "double"},  # types of C
    "src/device/launch.c": {"bool", "complex"},  # kinds of dtypes
    "src/device/opencl/devices.c": {"all"},  # a value of an environment variable
    "src/nn/attention.c": {"dropout"},  # an attribute
    "src/nn/conv.c": {"zeros"},  # a padding_mode
    "src/nn/recurrent.c": {"mode", "dropout", "tanh", "relu"},  # attributes; values of nonlinearity
    "src/nn/transformer.c": {"relu", "gelu"},  # values of activation
    "src/optim/rates.c": {"min", "linear"},  # values of options
    "src/optim/schedule.c": {"mode", "min", "max", "cos", "linear", "abs"},  # options and their values
}

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
# The text "..." as an argument of a comparison, and texts between the braces of a list.
COMPARED = re.compile(
    r"\b(?:strn?cmp|strn?casecmp|strstr|memcmp|\w*same_text|\w*CompareWithASCIIString)\s*\(([^;]*?)\)"
)
LIST = re.compile(r"=\s*\{|\[\]\)\{")
METHODS = re.compile(r"\b(?:PyMethodDef|PyGetSetDef|PyMemberDef)\b[^;{]*$")
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
# What opgen writes for an operator, and the record of one in a comparison.
SYMBOL = re.compile(r"\b(?:tpi_(?:map|fold|scan)|tpk|tpt)_(\w+)\b")
RECORD = re.compile(r"[!=]=\s*TPI_OPERATOR\((\w+)\)|TPI_OPERATOR\((\w+)\)\s*[!=]=")


def operator_names():
    names = set()
    for table in (ROOT / "tables/operators").glob("*.op"):
        for name in re.findall(r"^op ([\w.]+)", table.read_text(), re.M):
            names |= {name, name.replace(".", "_"), name.split(".")[0], name.split(".")[0] + "_"}
    return names


def lists(code):
    """The text between the braces of each initialiser, but for tables of a Python type's own methods."""
    for start in LIST.finditer(code):
        if METHODS.search(code[: start.start()][-200:]):
            continue
        depth, end = 0, start.end() - 1
        for end in range(start.end() - 1, len(code)):
            depth += (code[end] == "{") - (code[end] == "}")
            if depth == 0:
                break
        yield code[start.end() : end]


def names_in(code, operators):
    code = COMMENT.sub(" ", code)
    found = [match.group(1) for match in COMPARED.finditer(code)] + list(lists(code))
    named = {text for part in found for text in TEXT.findall(part)}
    named |= {first or second for first, second in RECORD.findall(code)}
    for symbol in SYMBOL.findall(code):
        named |= {symbol, symbol.split("_grad_")[0]}
    return named & operators


def test_no_operator_is_known_by_its_name():
    operators = operator_names()
    assert len(operators) > 1000
    offences = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            name = str(path.relative_to(ROOT))
            for word in sorted(names_in(path.read_text(), operators) - OTHER_MEANINGS.get(name, set())):
                offences.append(f'{name}: "{word}"')
    assert not offences, "say it in the operator's stanza:\n" + "\n".join(offences)


def test_the_test_finds_names():
    operators = operator_names()
    assert names_in('if (!strcmp(op->name, "softmax")) return 1;', operators) == {"softmax"}
    assert names_in('static const char *const cheap[] = {"add", "mul", NULL};', operators) == {"add", "mul"}
    assert names_in('struct { const char *name; int code; } known[] = {{"relu", 3}, {"x", 4}};', operators) == {"relu"}
    assert names_in('static PyMethodDef methods[] = {{"add", store_add, METH_VARARGS, NULL}};', operators) == set()
    assert names_in("extern const tpi_map_op tpi_map_add;", operators) == {"add"}
    assert names_in("return s->op == &tpi_fold_sum;", operators) == {"sum"}
    assert names_in("return f == tpk_mul_grad_self[0];", operators) == {"mul"}
    assert names_in("return op == TPI_OPERATOR(softmax);", operators) == {"softmax"}
    assert names_in("return tpi_map_settle(map, in) && TPI_OPERATOR(copy)->name;", operators) == set()
    assert names_in('return tpy_call_name("copy_", args, 2, NULL); /* strcmp(name, "add") */', operators) == set()
