"""Lays the pages down for an installed tree: installed.py SOURCE DOCDIR PREFIX.

In the source tree pages link to each other, to examples, headers, recipes and code. Installed, they lie elsewhere, and code
and figures are not there: a link to what is installed is rewritten, of any other its words stay. The README is another
one, docs/installed.md: that of the sources begins with how to build them."""

import os
import pathlib
import re
import shutil
import sys

PAGES = ["CHANGELOG.md", "SECURITY.md", "LICENSE", "NOTICE", "CITATION.cff"]
EXAMPLES = {".c", ".cpp", ".f90", ".py", ".md", ".gz"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def places(source, docdir, prefix):
    """Where each file of the source tree lies in the installed one."""
    found = {source / name: docdir / name for name in PAGES}
    beginning = source / "docs/installed.md"
    for path in (source / "docs").rglob("*"):
        if path.suffix in (".md", ".svg", ".png"):
            found[path] = docdir / ("README.md" if path == beginning else path.relative_to(source / "docs"))
    for path in (source / "examples").rglob("*"):
        if path.suffix in EXAMPLES:
            found[path] = docdir / path.relative_to(source)
    for path in (source / "packaging").rglob("*"):
        found[path] = prefix / "share/taper" / path.relative_to(source)
    for path in (source / "include").rglob("*.h*"):
        found[path] = prefix / path.relative_to(source)
    return {path: place for path, place in found.items() if path.is_file()}


def folders(found):
    """The folders of both trees that hold the same files, for links to a folder."""
    pairs = {}
    for path, place in found.items():
        if path.name == place.name:
            pairs.setdefault(path.parent, place.parent)
    return pairs


def rewritten(text, page, place, found):
    targets = {**folders(found), **found}

    def link(match):
        mark, words, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match.group(0)
        name, _, anchor = target.partition("#")
        there = targets.get(pathlib.Path(os.path.normpath(page.parent / name)))
        if there is None:
            return "" if mark else words
        relative = os.path.relpath(there, place.parent)
        return f"{mark}[{words}]({relative}{'#' + anchor if anchor else ''})"

    return LINK.sub(link, text)


def main():
    source, docdir, prefix = (pathlib.Path(os.path.abspath(path)) for path in sys.argv[1:4])
    found = places(source, docdir, prefix)
    for path, place in found.items():
        if docdir not in place.parents:
            continue  # CMake installs it
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            place.write_text(rewritten(path.read_text(), path, place, found))
        else:
            shutil.copyfile(path, place)


if __name__ == "__main__":
    main()
