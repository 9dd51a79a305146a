"""The reference pages of the site: operators by family, layers, optimisers, C headers, Python modules, the command.

    python tools/site/reference.py SOURCE BUILD FOLDER    FOLDER/reference/...

What they say comes from the tables, the headers and the package; the examples are the tables' samples, run here.
"""

import importlib
import importlib.util
import inspect
import os
import re
import sys

import examples
import headers
import taper
from taper import _C, _covered

FAMILIES = {
    "activation": "Activations",
    "attention": "Attention",
    "comparison": "Comparisons",
    "conv": "Convolutions",
    "creation": "Making tensors",
    "difference": "Differences and distances",
    "elementary": "Elementary functions",
    "embedding": "Embeddings and segments",
    "fft": "Fourier transforms",
    "index": "Indexing",
    "join": "Joining and rearranging",
    "linalg": "Linear algebra",
    "loss": "Losses",
    "matmul": "Products",
    "norm": "Softmax and normalisation",
    "pointwise": "Arithmetic, element by element",
    "pool": "Pooling",
    "random": "Random numbers",
    "recurrent": "Recurrent cells",
    "reduce": "Sums and other reductions",
    "resample": "Resampling and padding",
    "sort": "Sorting and searching",
    "sparse": "Sparse tensors",
    "special": "Special functions",
    "view": "Views and shapes",
}


def _title(family):
    return FAMILIES.get(family, family.capitalize())


def _page(family):
    """The name of a family's page; index.md is the list of all."""
    return "indexing" if family == "index" else family


def _write(folder, path, text):
    full = os.path.join(folder, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as file:
        file.write(text.rstrip() + "\n")


def _toc(names, depth=1):
    return "\n".join(["```{toctree}", f":maxdepth: {depth}", "", *names, "```", ""])


def _listed(title, rows):
    """Pages in a table, each with the first sentence of what it is for: rows of (file, name, text)."""
    out = [f"| {title} | what it is for |", "|---|---|"]
    for file, name, text in rows:
        sentence = " ".join(re.split(r"(?<=[\w)`'])\.(?:\s|$)", text.split("\n\n")[0])[0].split())
        out.append(f"| [{name}]({file}.md) | {_escaped(sentence)} |")
    out += ["", "```{toctree}", ":hidden:", "", *(file for file, *_ in rows), "```", ""]
    return "\n".join(out)


def _code(language, text):
    if language in ("c", "python") and "\n" not in text or language == "text" and ") -> " in text:
        text = headers.wrapped(text)
    return f"```{language}\n{text}\n```\n"


# ---- Operators ----
def _c_name(name):
    return "tp_" + name.replace(".", "_")


def _operator(row, lines, functions):
    name, signature, doc, _, method, inplace, *_ = row
    c_name = _c_name(name)
    forms = [
        text
        for there, text in (
            (method, f"method `x.{name.partition('.')[0]}`"),
            (inplace, f"in place `{name.partition('.')[0]}_`, in C `{c_name}_`"),
            (c_name + "_out" in functions, f"into a given tensor `out=`, in C `{c_name}_out`"),
        )
        if there
    ]
    parts = [f"## {name}", "", doc, "", _code("text", signature)]
    if c_name in functions:
        parts.append(_code("c", functions[c_name].call() + ";"))
    if forms:
        parts += ["Forms: " + "; ".join(forms) + ".", ""]
    example = examples.of_operator(name, lines)
    if example:
        parts += [_code("pycon", example)]
    elif examples.spelled(name) is None:
        parts += [f'Python has no name for it: other operators are made of it. In C also `tp_call("{name}", ...)`.', ""]
    return "\n".join(parts), example is not None


def operators(source, build, folder):
    """A page per family; (operators, operators with an example)."""
    found, known = {}, examples.samples(source)
    functions = {f.name: f for h in headers.read_all(source, build).values() for f in h.functions()}
    count = shown = 0
    for row in sorted(_C._operators(), key=lambda row: row[0].lower()):
        family, lines = known[row[0]]
        text, has_example = _operator(row, lines, functions)
        found.setdefault(family, []).append((row[0], row[2], text))
        count, shown = count + 1, shown + has_example
    for family, entries in found.items():
        public = [entry for entry in entries if examples.spelled(entry[0]) and not entry[0].startswith("_")]
        inner = [entry for entry in entries if entry not in public]
        text = [f"# {_title(family)}", "", f"Written from `tables/operators/{family}.op`. Examples begin with "]
        text[-1] += "`import torch` and, for `F`, `import torch.nn.functional as F`."
        text += ["", *[entry[2] for entry in public]]
        if inner:
            text += ["", *[entry[2] for entry in inner]]
        _write(folder, f"reference/operators/{_page(family)}.md", "\n".join(text))
    index = [
        "# Operators",
        "",
        f"{count} operators in {len(found)} families. Names, arguments and defaults are PyTorch's. In C an operator",
        "`name` is `tp_name`; what has a default is a designated initialiser: `tp_sum(x, .dim = TP_INTS(0))`.",
        "[One table](../../operators.md) has them all, with derivatives and forms.",
        "",
        _toc([_page(family) for family in sorted(found, key=_title)]),
    ]
    _write(folder, "reference/operators/index.md", "\n".join(index))
    return count, shown


# ---- Layers and optimisers ----
def _layer_samples(build):
    spec = importlib.util.spec_from_file_location("layer_samples", os.path.join(build, "generated", "layer_samples.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SAMPLES


def layers(source, build, folder):
    """A page per table; (layers, layers with an example)."""
    by_name = {}
    for name, _, text, *_ in _layer_samples(build):
        by_name.setdefault(name, []).append(text)
    functions = headers.read(os.path.join(build, "generated", "include", "taper", "layers.h")).functions()
    by_key = {f.name.replace("_", ""): f for f in functions}
    tables = os.path.join(source, "tables", "layers")
    count = shown = 0
    pages = []
    for file in sorted(os.listdir(tables)):
        page = file.removesuffix(".layer")
        with open(os.path.join(tables, file), encoding="utf-8") as lines:
            text = lines.read()
        entries = []
        for stanza in re.split(r"^(?=layer )", text, flags=re.M)[1:]:
            head = re.match(r"layer ([\w{}]+)", stanza)[1]
            numbers = re.search(r"^\s+for\s+\w+\s+([\d ]+)$", stanza, re.M)
            names = [re.sub(r"\{\w+\}", n, head) for n in numbers[1].split()] if numbers else [head]
            entries += [name for name in names if not name.startswith("_") and hasattr(taper.nn, name)]
        out = [
            f"# {page.capitalize()}",
            "",
            f"Written from `tables/layers/{file}`. Examples begin with `import torch` and",
        ]
        out += ["`from torch import nn`.", ""]
        for name in entries:
            layer = getattr(taper.nn, name)
            out += [
                f"## {name}",
                "",
                inspect.getdoc(layer) or "",
                "",
                _code("python", f"nn.{name}{inspect.signature(layer)}"),
            ]
            function = by_key.get("tpnn" + name.lower())
            if function:
                out.append(_code("c", function.call() + ";"))
            count += 1
            example = examples.of_first(name, by_name.get(name, ()))
            if example:
                out.append(_code("pycon", example))
                shown += 1
        if entries:
            pages.append(page)
            _write(folder, f"reference/layers/{page}.md", "\n".join(out))
    text = [
        "# Layers",
        "",
        f"{count} layers of `torch.nn`; in C a layer `Conv2d` is `tp_nn_conv2d`. Seeded initial values, `repr` and",
        "`state_dict` are PyTorch's. [One table](../../layers.md) has them all.",
        "",
        _toc(pages),
    ]
    _write(folder, "reference/layers/index.md", "\n".join(text))
    return count, shown


OPTIMISER = """w = torch.tensor([1.0, -2.0], requires_grad=True)
optimiser = torch.optim.{name}([w], lr={lr})
(w ** 2).sum().backward()
optimiser.step()"""


def optimisers(source, build, folder):
    """One page; (optimisers, optimisers with an example)."""
    functions = headers.read(os.path.join(build, "generated", "include", "taper", "optimisers.h")).functions()
    by_key = {f.name.replace("_", ""): f for f in functions}
    names = re.findall(
        r"^## (\w+)$", open(os.path.join(source, "docs", "optimisers.md"), encoding="utf-8").read(), re.M
    )
    out = ["# Optimisers, with examples", "", "[Optimisers](../optimisers.md) has every option, state and update.", ""]
    shown = 0
    for name in names:
        optimiser = getattr(taper.optim, name)
        out += [f"## {name}", "", inspect.getdoc(optimiser) or "", ""]
        out.append(_code("python", f"torch.optim.{name}{inspect.signature(optimiser)}"))
        function = by_key.get("tp" + name.lower())
        if function:
            out.append(_code("c", function.call() + ";"))
        lines = OPTIMISER.format(name=name, lr=0.1).split("\n")
        if name == "SparseAdam":
            lines[0] = "w = torch.tensor([[1.0, -2.0]], requires_grad=True)"
            lines[2] = "F.embedding(torch.tensor([0]), w, sparse=True).sum().backward()"
        elif name == "Muon":
            lines[0] = "w = torch.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)"
        elif name == "LBFGS":
            lines[2:] = [
                "def closure():",
                "    optimiser.zero_grad()",
                "    loss = (w ** 2).sum()",
                "    loss.backward()",
                "    return loss",
                "",
                "_ = optimiser.step(closure)",
            ]
        result = _whole("\n".join(lines), "w.detach()")
        out.append(
            _code("python", "\n".join(["import torch", "import torch.nn.functional as F", *lines, "print(w.detach())"]))
        )
        out.append(_code("text", result))
        shown += 1
    _write(folder, "reference/optimisers-examples.md", "\n".join(out))
    return len(names), shown


def _whole(text, expression):
    space = {"torch": taper, "F": taper.nn.functional}
    taper.manual_seed(0)
    exec(text, space)
    return repr(eval(expression, space))


# ---- C and Python ----
def c_pages(source, build, folder):
    """A page per hand-written header; the number of functions."""
    rows, count = [], 0
    for name, header in headers.read_all(source, build).items():
        if name.startswith("ops") or name in ("layers.h", "optimisers.h", "taper.h") or not header.functions():
            continue
        _write(folder, f"reference/c/{name[:-2]}.md", headers.page(header))
        rows.append((name[:-2], f"taper/{name}", header.text))
        count += len(header.functions())
    text = [
        "# The C API",
        "",
        "One header per concept; `taper/taper.h` includes them all. Operators (`tp_softmax`), layers (`tp_nn_linear`) and",
        "optimisers (`tp_adam`) are on their own pages. Every function has a man page: `man tp_backward`.",
        "",
        _listed("header", rows),
    ]
    _write(folder, "reference/c/index.md", "\n".join(text))
    return count


def _signature(value):
    """As it is written in a program: defaults by their names, without the paths and addresses of this machine."""
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"
    text = re.sub(r"<(?:module|class) '([^']+)'[^>]*>", r"\1", text)
    return re.sub(r"<(?:function )?([\w.]+)(?: object)? at 0x[0-9a-f]+>", r"\1", text)


def _first_paragraph(value):
    text = inspect.getdoc(value) or ""
    if inspect.isclass(value) and value.__doc__ is None:
        text = ""
    return text.split("\n\n")[0]


def _about(name):
    """What a module or class says of itself, without its own name."""
    text = (inspect.getdoc(_covered._owner(name)) or "").removeprefix(f"{name}: ")
    return text[:1].upper() + text[1:] if text.partition(" ")[0].rstrip(",").isalpha() else text


def _escaped(text):
    """A doc's text for a page: what is between backticks stays."""
    parts = re.split(r"(`[^`\n]*`)", text)
    return "".join(part if i % 2 else re.sub(r"([<>*_|\[\]`])", r"\\\1", part) for i, part in enumerate(parts))


def _constant(value):
    """What a page says of a name that is no function and no class."""
    if inspect.isdatadescriptor(value):
        return _escaped(" ".join(["An attribute.", _first_paragraph(value)]).strip())
    if isinstance(value, taper.dtype):
        return f"The dtype `{value!r}`, {value.itemsize} bytes an element."
    if value is None or isinstance(value, (bool, int, float)):
        return f"`{value!r}`"
    name = type(value).__name__.lstrip("_")
    about = _first_paragraph(type(value)) if type(value).__module__.partition(".")[0] in ("taper", "torch") else ""
    return " ".join([f"An object of the kind `{name}`.", _escaped(about)]).strip()


def _entry(full, value, operators_at):
    """The lines of one name."""
    name = full.rpartition(".")[2]
    out = [f"### {name}", ""]
    page = operators_at.get(full)
    if page:
        text = _C._functions[page[1]].__doc__ if page[1] in _C._functions else ""
        out += [
            _code("text", full + text[text.find("(") :].split("\n")[0]),
            text.split("\n\n")[1].split("\n")[0] if "\n\n" in text else "",
            "",
        ]
        return [*out, f"[Text and example](../operators/{_page(page[0])}.md#{page[2]})", ""]
    if callable(value):
        kind = "class " if inspect.isclass(value) else ""
        out.append(_code("python", f"{kind}{full}{_signature(value)}"))
    else:
        out += [_constant(value), ""]
    text = _first_paragraph(value) if callable(value) else ""
    if text and not text.startswith(name + "("):
        out += [_escaped(text), ""]
    return out


def _groups():
    """{page: {namespace: names}}: a page per module below torch. A name that several modules show is listed where its
    path is shortest."""
    found, seen = {}, {}
    for owner, (here, _) in sorted(_covered.coverage().items(), key=lambda item: item[0].count(".")):
        if any(part.startswith("_") for part in owner.split(".")):
            continue
        ours = _covered._owner(owner)
        for name in here:
            value = getattr(ours, name)
            known = seen.get((name, id(value))) if callable(value) or inspect.ismodule(value) else None
            if inspect.ismodule(value) or known:
                continue
            seen[name, id(value)] = owner
            found.setdefault(".".join(owner.split(".")[:2]), {}).setdefault(owner, []).append(name)
    return found


def python_pages(source, folder):
    """The pages of PyTorch's names that Taper has; the number of names."""
    known = examples.samples(source)
    operators_at = {}
    for row in _C._operators():
        where = examples.spelled(row[0])
        if where and where != "method" and "." not in row[0]:
            full = where.replace("F.", "torch.nn.functional.", 1) if where.startswith("F.") else where
            operators_at[full] = known[row[0]][0], row[0], row[0].lower()
    groups, count = _groups(), 0
    for page, namespaces in groups.items():
        out = [f"# {page}", ""]
        for owner, names in namespaces.items():
            ours = _covered._owner(owner)
            out += [f"## {owner}", ""] if len(namespaces) > 1 or owner != page else ["## Names", ""]
            for name in names:
                out += _entry(f"{owner}.{name}", getattr(ours, name), operators_at)
            count += len(names)
        _write(folder, f"reference/python/{page}.md", "\n".join(out))
    text = [
        "# Python names",
        "",
        f"{count} of PyTorch's public names. One that several modules show is listed where its path is shortest.",
        "`taper names PATTERN` searches them in the terminal, and tells what is not there.",
        "",
        _listed("module or class", [(page, page, _about(page)) for page in sorted(groups)]),
    ]
    _write(folder, "reference/python/index.md", "\n".join(text))
    return count


# ---- The command ----
def command_page(folder):
    """The command and all its subcommands, by their own help."""
    from taper._command import build_parser, subcommands

    parser = build_parser()
    out = ["# The command", "", "`taper --help` and `taper COMMAND --help` print the same.", ""]
    out += [_code("text", parser.format_help().rstrip())]
    for name, sub in subcommands(parser).items():
        out += [f"## taper {name}", "", _code("text", sub.format_help().rstrip())]
    _write(folder, "reference/command.md", "\n".join(out))


def main(source, build, folder):
    """All pages."""
    print("operators: {} ({} with an example)".format(*operators(source, build, folder)))
    print("layers: {} ({} with an example)".format(*layers(source, build, folder)))
    print("optimisers: {} ({} with an example)".format(*optimisers(source, build, folder)))
    print(f"C functions outside of the tables: {c_pages(source, build, folder)}")
    print(f"Python names: {python_pages(source, folder)}")
    command_page(folder)


if __name__ == "__main__":
    main(*map(os.path.abspath, sys.argv[1:4]))
