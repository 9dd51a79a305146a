"""Links of the Markdown pages: where they lead in the repository and in the site, and whether that is there."""

import html.parser
import os
import re
import shutil
from urllib.parse import unquote, urlsplit

LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")
FENCE = re.compile(r"^(```|~~~)", re.M)
# Pages outside of docs/, and their names in the site.
OTHERS = {
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "bench/README.md": "bench.md",
    "bench/results.md": "bench-results.md",
}


def pages(root):
    """{path in the repository: path in the site} of every page."""
    found = {}
    for folder, _, files in os.walk(os.path.join(root, "docs")):
        for name in sorted(files):
            if name.endswith(".md") and name != "README.md":
                path = os.path.relpath(os.path.join(folder, name), root)
                found[path] = os.path.relpath(path, "docs")
    return {**found, **{path: name for path, name in OTHERS.items() if os.path.exists(os.path.join(root, path))}}


def _outside_code(text, change):
    """The text with `change` applied to what is not inside of a fence."""
    out, fenced = [], False
    for line in text.split("\n"):
        if FENCE.match(line.lstrip()):
            fenced = not fenced
        out.append(line if fenced or line.startswith("    ") else change(line))
    return "\n".join(out)


def anchors(text):
    """The anchors of a page's headings, as forges and MyST make them."""
    found = set()
    for heading in re.findall(r"^#{1,6} (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M):
        words = re.sub(r"[^\w\- ]", "", heading.lower()).strip()
        found.add(words.replace(" ", "-"))
    return found


def broken(path, root, generated=("docs/reference/",)):
    """Links of a page that lead nowhere in the repository. Pages that only the site has are left to the site's check."""
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    found = []

    def look(line):
        for link in LINK.finditer(line):
            target = link["target"].strip("<>")
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            full = os.path.normpath(os.path.join(os.path.dirname(path), unquote(name))) if name else path
            if any(full.startswith(folder) for folder in generated) and full.endswith(".md"):
                continue
            if not os.path.exists(os.path.join(root, full)):
                found.append(f"{path}: {target} is not there")
            elif anchor and full.endswith(".md"):
                with open(os.path.join(root, full), encoding="utf-8") as file:
                    if anchor not in anchors(file.read()):
                        found.append(f"{path}: {target}: there is no such heading")
        return line

    _outside_code(text, look)
    return found


def titled(text, name):
    """The text with a heading: tables that programs write have none."""
    has = re.search(r"^# ", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return text if has else f"# {os.path.basename(name).removesuffix('.md').replace('-', ' ').capitalize()}\n\n{text}"


def for_site(text, original, name, known, root, folder):
    """A page's text with links that hold in the site: to its pages, to copies of pictures; the rest becomes text."""

    def change(link):
        target = link["target"].strip("<>")
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return link[0]
        path, _, anchor = target.partition("#")
        full = os.path.normpath(os.path.join(os.path.dirname(original), unquote(path)))
        if full in known:
            back = os.path.relpath(known[full], os.path.dirname(name) or ".")
            return f"{link['image']}[{link['text']}]({back}{'#' + anchor if anchor else ''})"
        if full.startswith("docs/reference/"):
            return link[0]
        if link["image"]:
            copy = os.path.join("images", os.path.basename(full))
            os.makedirs(os.path.join(folder, "images"), exist_ok=True)
            shutil.copy(os.path.join(root, full), os.path.join(folder, copy))
            return f"![{link['text']}]({os.path.relpath(copy, os.path.dirname(name) or '.')})"
        words = link["text"]
        shown = words if words.startswith("`") else f"`{words}`" if re.fullmatch(r"[\w./-]+", words) else words
        return shown if full in words or shown != words else f"{shown} (`{full}`)"

    return _outside_code(titled(text, name), lambda line: LINK.sub(change, line))


class _Page(html.parser.HTMLParser):
    """The links and anchors of a page, and whether it has a heading."""

    def __init__(self):
        super().__init__()
        self.links, self.ids, self.headings = [], set(), 0

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if given.get("id"):
            self.ids.add(given["id"])
        self.headings += tag == "h1"
        for name in ("href", "src"):
            if given.get(name):
                self.links.append(given[name])


def check_html(site):
    """What is wrong with a built site: links and pictures that lead nowhere, pages without a heading."""
    read = {}
    for folder, _, files in os.walk(site):
        for name in files:
            if name.endswith(".html"):
                page = _Page()
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    page.feed(file.read())
                read[path] = page
    wrong = []
    for path, page in sorted(read.items()):
        name = os.path.relpath(path, site)
        if not page.headings:
            wrong.append(f"{name}: no heading")
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = os.path.normpath(os.path.join(os.path.dirname(path), unquote(parts.path))) if parts.path else path
            if not os.path.exists(target):
                wrong.append(f"{name}: {link} is not there")
            elif parts.fragment and target in read and unquote(parts.fragment) not in read[target].ids:
                wrong.append(f"{name}: {link}: no such anchor")
    return wrong
