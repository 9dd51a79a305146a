"""Which of PyTorch's names packages on top of it use, and which of those Taper has. docs/clients.md comes from this.

    pip download --no-deps -d DIR transformers accelerate ...      # wheels or sources
    python tools/clients_names.py scan DIR > uses.json             # {name: {package: times}}
    python tools/clients_names.py have uses.json > there.json      # which of them this Python's torch has: once with
    PyTorch, once with
                                                                   # `taper run`
    python tools/clients_names.py page uses.json pytorch.json taper.json      # the part "Names" of docs/clients.md

A name is what the source says: imports are followed (`import torch.nn.functional as F`, `from torch.a import b`), then
chains of attributes on them. Tests and examples that packages ship are left out, and so is what PyTorch itself has not.
"""

import ast
import json
import re
import sys
import tarfile
import zipfile
from collections import Counter, defaultdict
from pathlib import Path

_OURS = re.compile(r"torch(vision|audio)?(\.|$)")
_NOT_THE_PACKAGE = re.compile(
    r"(^|/)(tests?|testing|examples?|docs?|benchmarks?|conftest\.py|test_[^/]*\.py|setup\.py)(/|$)"
)


# ---- Reading sources ----
class _Uses(ast.NodeVisitor):
    """Counts the names of one file. Imports inside functions count as the file's: a name means the same wherever it is
    imported."""

    def __init__(self, tree):
        self.names, self.meaning = Counter(), {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level and _OURS.match(node.module):
                self._import_from(node)
        self.visit(tree)

    def _import(self, node):
        for alias in node.names:
            if _OURS.match(alias.name):
                top = alias.name.partition(".")[0]
                self.meaning[alias.asname or top] = alias.name if alias.asname else top
                self.names[alias.name] += 1

    def _import_from(self, node):
        for alias in node.names:
            if alias.name == "*":
                self.names[node.module] += 1
            else:
                self.meaning[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                self.names[f"{node.module}.{alias.name}"] += 1

    def visit_Attribute(self, node):
        chain = []
        while isinstance(node, ast.Attribute):
            chain.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in self.meaning:
            self.names[".".join([self.meaning[node.id], *reversed(chain)])] += 1
        else:
            self.visit(node)


def _sources(path):
    """The Python files of a wheel, a source archive or a folder: (path inside, text)."""
    if path.is_dir():
        for file in path.rglob("*.py"):
            yield str(file.relative_to(path)), file.read_bytes()
    elif path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".py"):
                    yield name, archive.read(name)
    else:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and member.name.endswith(".py"):
                    yield member.name.partition("/")[2], archive.extractfile(member).read()


def _package(path):
    return re.match(r"(.+?)-\d", path.name + "-0").group(1).replace("_", "-").lower()


def scan(folder):
    uses = defaultdict(Counter)
    for path in sorted(Path(folder).iterdir()):
        for name, text in _sources(path):
            if _NOT_THE_PACKAGE.search(name):
                continue
            try:
                found = _Uses(ast.parse(text)).names
            except (SyntaxError, ValueError):  # templates, Python 2
                continue
            for used, times in found.items():
                uses[used][_package(path)] += times
    return uses


# ---- Asking a torch ----
def _resolve(name):
    """How much of a dotted name is there: the longest part that can be imported or read, as a number of its words."""
    from importlib import import_module

    words, found, count = name.split("."), None, 0
    for word in words:
        try:
            found = (
                getattr(found, word) if count and hasattr(found, word) else import_module(".".join(words[: count + 1]))
            )
        except Exception:  # a module that cannot be imported here is one that is not there
            break
        if type(found).__name__ == "Absent":
            break
        count += 1
    return count


def have(uses):
    """{name: how many of its words are there}"""
    import warnings

    warnings.simplefilter("ignore")
    return {name: _resolve(name) for name in uses}


# ---- The page ----
def _table(uses, theirs, ours):
    """(name, packages, is it there), those that PyTorch has; a chain's tail that PyTorch has not is cut: it belongs to
    an object."""
    packages, missing = defaultdict(Counter), set()
    for name, users in uses.items():
        words = name.split(".")[: theirs[name]]
        if len(words) > 1:
            full = ".".join(words)
            packages[full].update(users)
            if ours[name] < len(words):
                missing.add(full)
    rows = [(name, users, name not in missing) for name, users in packages.items()]
    return sorted(rows, key=lambda row: (-len(row[1]), -sum(row[1].values()), row[0]))


def _namespaces(rows):
    """A line per namespace with ten names or more, and one for the others."""
    counts = defaultdict(lambda: [0, 0])
    for name, _, there in rows:
        module = name.rpartition(".")[0]
        while sum(other.startswith(module + ".") for other, _, _ in rows) < 10:
            module = module.rpartition(".")[0]
        counts[module][0] += there
        counts[module][1] += 1
    for module, (there, all_of_them) in sorted(counts.items(), key=lambda item: -item[1][1]):
        yield f"| `{module}` | {there} | {all_of_them} |"


def page(uses, theirs, ours):
    """The part of docs/clients.md below its heading "Names"."""
    rows = _table(uses, theirs, ours)
    shared = [row for row in rows if len(row[1]) > 1]
    alone = [row for row in rows if len(row[1]) == 1]
    everyone = {package for _, users, _ in rows for package in users}
    print(
        f"{len(everyone)} packages use {len(rows)} of PyTorch's names. Taper has {sum(row[2] for row in shared)} of the {len(shared)} that two packages or more use, "
        f"and {sum(row[2] for row in alone)} of the {len(alone)} that one uses. Those of two or more, by namespace:\n"
    )
    print("| namespace | Taper has | of |\n|---|---|---|")
    print("\n".join(_namespaces(shared)))
    print("\nUsed by two packages or more, and not in Taper:\n\n| name | packages |\n|---|---|")
    for name, users, there in shared:
        if not there:
            print(f"| `{name}` | {len(users)}: {', '.join(sorted(users)[:4])}{', ...' if len(users) > 4 else ''} |")


def main(arguments):
    command, *files = arguments
    if command == "scan":
        print(json.dumps(scan(files[0]), indent=0))
        return
    given = [json.loads(Path(file).read_text()) for file in files]
    if command == "have":
        print(json.dumps(have(*given), indent=0))
    elif command == "page":
        page(*given)
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
