"""Facts about operators stand in their stanzas (docs/tables.md), so no code of the folders below compares an operator's
name with a text, lists operators by name, or knows one by its record or kernel (tpi_map_NAME, tpk_NAME,
== TPI_OPERATOR(NAME)). Calls by name are fine."""

import ast
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
    "python/ext/proven_functions.c": {"copy"},  # a module of Python's library
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

# Files of the Python package that list operators: what is PyTorch's face, or code for each, and no fact of operators.
FACES = {
    "python/taper/_batched.py": "how vmap takes apart operators that have no batch rule, one function each",
    "python/taper/_c_names.py": "what PyTorch keeps in torch._C._nn",
    "python/taper/_dispatch/__init__.py": "what aten's schemas take numbers for",
    "python/taper/_dispatch/_decompositions.py": "what PyTorch takes apart before a handler sees it",
    "python/taper/_dispatch/_derivatives.py": "the derivatives of aten's overloads",
    "python/taper/_docs.py": "examples of docstrings",
    "python/taper/_toplevel.py": "names that torch itself has",
    "python/taper/distributed/tensor/_rules.py": "functions that plan products and layers, by the operator they plan",
    "python/taper/distributed/tensor/_views.py": "functions that plan views, by the operator they plan",
    "python/taper/fx/_naming.py": "the modules under whose names torch.fx writes functions",
    "python/taper/fx/graph.py": "functions of Python's module operator",
    "python/taper/jit/_graph.py": "dtypes",
    "python/taper/masked/__init__.py": "the names of torch.masked",
    "python/taper/masked/maskedtensor/binary.py": "a public list of PyTorch's",
    "python/taper/masked/maskedtensor/core.py": "what PyTorch's masked tensors have",
    "python/taper/masked/maskedtensor/reductions.py": "a public list of PyTorch's",
    "python/taper/masked/maskedtensor/unary.py": "a public list of PyTorch's",
    "python/taper/nested/__init__.py": "what PyTorch's nested tensors have",
    "python/taper/nested/_strided.py": "what PyTorch's nested tensors have",
    "python/taper/nn/functional.py": "in-place functions of nn.functional",
    "python/taper/sparse/_operators.py": "what PyTorch's sparse tensors have",
    "python/taper/storage.py": "dtypes",
    "python/taper/utils/flop_counter.py": "what PyTorch counts",
}
MANY = 8  # so many operators' names in one list of Python's are a list of operators

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


def listed(code, operators):
    """The longest list, tuple, set, dict or text of words whose words are mostly operators' names: how many are."""
    most = 0
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            words = [item.value for item in node.elts if isinstance(item, ast.Constant)]
        elif isinstance(node, ast.Dict):
            words = [key.value for key in node.keys if isinstance(key, ast.Constant)]
        else:
            words = node.value.split() if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
        known = [word for word in words if isinstance(word, str) and word.split(".")[0] in operators]
        most = max(most, len(known) if 2 * len(known) >= len(words) else 0)
    return most


def test_python_lists_no_operators():
    operators = operator_names()
    package = sorted((ROOT / "python/taper").rglob("*.py"))
    lists = {str(path.relative_to(ROOT)) for path in package if listed(path.read_text(), operators) >= MANY}
    assert lists - set(FACES) == set(), "say it in the operators' stanzas"
    assert set(FACES) - lists == set(), "these list none any more"


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
    assert listed('CHEAP = "abs neg exp log sin cos tan sqrt".split()', operators) == 8
    assert listed('RULES = {"abs": 1, "neg": 2, "spam": 3}', operators) == 2
    assert listed('"""How to add and mul, in plain words that are no list of any kind."""', operators) == 0
