"""Reads the public C headers: each function's declaration, its comment and its section. Pages of the site and man pages
are made of that."""

import os
import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"(?P<comment>/\*(?s:.*?)\*/)"
    r"|(?P<directive>^[ \t]*#(?:[^\n\\]|\\\n|\\.)*)"
    r"|(?P<struct>typedef struct \w+ \{(?P<members>.*(?:\n(?!\}).*)*)\n\} (?P<options>\w+);)"
    r"|(?P<function>\bTP_API\s+(?P<declaration>[^;{]*);)"
    r"|(?P<other>[;{}])",
    re.M,
)
MEMBER = re.compile(r"(?P<type>[\w ]+?[ *]+)(?P<name>\w+)\s+TP_MEMBER\((?P<value>.*)\)\s*$", re.S)


@dataclass
class Function:
    """A function of the C API."""

    name: str  # as a program writes it: tp_softmax, where the library exports tp_softmax_with
    declaration: str
    text: str
    options: list = field(default_factory=list)  # (type, name, default, comment)
    beside: "Function" = None  # the function above it whose comment is of both, where it has none of its own

    def call(self):
        """The declaration as a program writes the call: options by their names."""
        text = " ".join(self.declaration.split()).replace("( ", "(")
        if self.options:
            text = re.sub(r",? ?const \w+_options \*\w+\)$", ")", text).replace(self.name + "_with(", self.name + "(")
            named = ", ".join(f".{name} = {_as_written(value)}" for _, name, value, _ in self.options)
            text = (text[:-1].removesuffix("void") + ", " + named + ")").replace("(, ", "(")
        return text

    def about(self):
        """Its text, or that of the function that it stands beside."""
        if self.text or self.beside is None:
            return self.text
        return f"Beside {self.beside.name}: {self.beside.text}"

    def described(self):
        """(option, comment) of the options that have one."""
        return [(name, about) for _, name, _, about in self.options if about]


def _as_written(value):
    """A default list of integers, in the header tp_ints_view(tp_ints_1_m2_, 2), as a program writes it."""
    found = re.fullmatch(r"tp_ints_view\(tp_ints_(\w+)_, [1-9]\)", value)
    return f"TP_INTS({', '.join(found[1].replace('m', '-').split('_'))})" if found else value


@dataclass
class Section:
    """Functions under one heading of a header."""

    title: str
    text: str
    functions: list = field(default_factory=list)


@dataclass
class Header:
    """One header: what it is for, and its sections."""

    name: str
    text: str
    sections: list

    def functions(self):
        return [function for section in self.sections for function in section.functions]


def wrapped(text, width=84):
    """A long call with an argument a line."""
    if len(text) <= width or "(" not in text:
        return text
    head, _, rest = text.partition("(")
    inner, arrow, result = rest.partition(") -> ")
    tail = " -> " + result
    if not arrow:
        inner, _, tail = rest.rpartition(")")
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(inner):
        depth += letter in "([{"
        depth -= letter in ")]}"
        if letter == "," and not depth:
            parts.append(inner[start:i].strip())
            start = i + 1
    parts.append(inner[start:].strip())
    return f"{head}(\n    " + ",\n    ".join(parts) + f"){tail}"


def plain(comment):
    """A comment's text without its stars; what is indented further is code and stays as it is."""
    text = re.sub(r"^/\*+ ?|\s*\*/$", "", comment.strip())
    return "\n".join(re.sub(r"^\s*\* ?", "", line) if i else line for i, line in enumerate(text.split("\n"))).strip()


# Names of functions, macros and options are set as code; of all else, what Markdown would read is escaped.
NAME = re.compile(r"(?P<code>`[^`]*`)|(?P<name>\b(?:tp|TP|TAPER)_\w+(?:\(\))?)|[<>*_|\[\]]")


def _name_or_escaped(found):
    if found["code"]:
        return found["code"]
    return f"`{found['name']}`" if found["name"] else "\\" + found[0]


def markdown(text):
    """The text for a page: paragraphs, and indented lines as blocks of C."""
    out, code = [], []

    def close():
        if code:
            out.extend(["", "```c", *[re.sub(r"^    ", "", line) for line in code], "```", ""])
            code.clear()

    for line in text.split("\n"):
        if line.startswith("    ") or (code and not line.strip()):
            code.append(line)
        else:
            while code and not code[-1].strip():
                code.pop()
            close()
            out.append(NAME.sub(_name_or_escaped, line))
    close()
    return "\n".join(out).strip()


def _options(members):
    """(type, name, default, comment) of each; a comment stands behind its member."""
    found = []
    for member in re.finditer(r"(?P<text>[^;]*);[ \t]*(?P<comment>/\*.*?\*/)?", members, re.S):
        match = MEMBER.match(" ".join(re.sub(r"/\*.*?\*/", "", member["text"], flags=re.S).split()))
        if match:
            about = " ".join(plain(member["comment"] or "").split())
            found.append((match["type"].strip(), match["name"], match["value"], about))
    return found


def read(path):
    """The Header of a file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    header = Header(os.path.basename(path), "", [Section("", "")])
    pending, pending_end, last, last_end, options, seen = "", 0, None, -1, [], set()
    first = None  # of the functions that stand without a gap below one comment
    for token in TOKEN.finditer(text):
        between = text[max(pending_end, last_end) : token.start()]
        if token["comment"]:
            words = plain(token["comment"])
            title = re.match(r"-{2,} (.*?) -{2,}\s*(.*)", words, re.S)
            if not header.text and not header.functions() and token.start() < 5:
                header.text = words
            elif title:
                header.sections.append(Section(title[1].replace("\n", " "), title[2]))
                pending = ""
            elif last is not None and "\n" not in text[last_end : token.start()]:
                last.text = (last.text + " " + words).strip()
            else:
                pending, pending_end = words, token.end()
        elif token["struct"]:
            options = _options(token["members"]) if token["options"].endswith("_options") else []
            last = first = None
        elif token["function"]:
            declaration = " ".join(token["declaration"].split())
            name = re.search(r"\(?\*?\b(tp_\w+)\s*\(", declaration)
            if name is None:
                continue
            if between.count("\n\n") and not options:
                pending = ""
            short = name[1][:-5] if name[1].endswith("_with") and options else name[1]
            function = Function(short, declaration, pending, options if short != name[1] else [])
            if pending:
                first = function
            elif first and "\n\n" not in text[last_end : token.start()]:
                function.beside = first
            else:
                first = None
            if short not in seen:
                seen.add(short)
                header.sections[-1].functions.append(function)
            last, last_end, pending, options = function, token.end(), "", []
    _describe_forms(header)
    return header


def _describe_forms(header):
    """In-place and out forms have no comment of their own: their operator has it."""
    known = {function.name: function for function in header.functions()}
    for function in header.functions():
        name = function.name.removesuffix("_with")
        for ending, words in (("_out", "Writes into out, which it returns"), ("_", "Works in place, and returns self")):
            base = known.get(name.removesuffix(ending)) if name.endswith(ending) else None
            if base is not None and not function.text:
                function.text = f"{words}: {base.text}" if base.text else words


def read_all(source, build):
    """{header's name: Header} of the hand-written headers, and of those that opgen wrote."""
    found = {}
    for folder in (os.path.join(source, "include", "taper"), os.path.join(build, "generated", "include", "taper")):
        for name in sorted(os.listdir(folder)):
            if name.endswith(".h"):
                found[name] = read(os.path.join(folder, name))
    return found


def page(header):
    """A header as a page of the site."""
    lines = [f"# taper/{header.name}", "", markdown(header.text), ""]
    for section in header.sections:
        if not section.functions and not section.text:
            continue
        lines += [f"## {section.title[0].upper() + section.title[1:]}" if section.title else "## Functions", ""]
        if section.text:
            lines += [markdown(section.text), ""]
        for function in section.functions:
            lines += [f"### {function.name}", "", "```c", wrapped(function.call() + ";"), "```", ""]
            about = function.about()
            if about:
                lines += [markdown(about[0].upper() + about[1:]), ""]
            lines += [f"- `.{name}`: {markdown(about)}" for name, about in function.described()] + [""]
    return "\n".join(lines)


def _roff(text):
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.M)


def _man_text(text):
    """A comment for a man page: paragraphs, and what is indented as it stands."""
    lines, code = [], False
    for line in text.split("\n"):
        if line.startswith("    ") != code and line.strip():
            code = not code
            lines.append(".PP\n.nf" if code else ".fi\n.PP")
        lines.append(_roff(line) if line.strip() else "" if code else ".PP")
    return "\n".join([*lines, ".fi"] if code else lines)


def man(function, header, version):
    """A function as a man page of section 3."""
    section = next((section for section in header.sections if function in section.functions), None)
    lines = (function.about() or (section.text if section else "")).split("\n")
    signature = [lines.pop(0)] if ") -> " in lines[0] else []  # an operator's text begins with it
    text = "\n".join(lines).strip() or header.text
    summary = " ".join(text.split("\n\n")[0].split()).split(". ")[0].rstrip(".") if any(lines) else header.name
    options = [f".TP\n.B .{name}\n{_roff(about)}" for name, about in function.described()]
    lines = [
        f'.TH {function.name} 3 "" "Taper {version}" "Taper"',
        ".SH NAME",
        f"{function.name} \\- {_roff(summary)}",
        ".SH SYNOPSIS",
        ".nf",
        f"#include <taper/{header.name if not header.name.startswith('ops_') else 'taper.h'}>",
        "",
        _roff(wrapped(function.call() + ";", 78)),
        ".fi",
        ".SH DESCRIPTION",
        *([".nf", *map(_roff, signature), ".fi", ".PP"] if signature else []),
        _man_text(text),
        *([".SH OPTIONS", *options] if options else []),
        ".SH ERRORS",
        "A function that fails returns NULL, false or \\-1 and leaves a message that tp_error(3) gives.",
        "The message stays until tp_error_clear(3).",
        ".SH SEE ALSO",
        "taper(1)",
    ]
    return "\n".join(lines) + "\n"
