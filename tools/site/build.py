"""Builds the documentation site and the man pages: `make docs` calls it.

    python tools/site/build.py BUILD [--sphinx PYTHON]    BUILD/site/index.html, BUILD/man/man1, BUILD/man/man3

PYTHON has Sphinx; the Python that runs this has the package. Without --sphinx the pages are staged and checked,
and no HTML is written. The steps: stage docs/ and the pages of other folders, with links that hold in the site;
write the reference; run Sphinx with warnings as errors; check every link of the result.
"""

import argparse
import os
import shutil
import subprocess
import sys

import headers
import links
import reference

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def stage(folder):
    """Copies docs/ and the pages of other folders to `folder`, with their links rewritten for the site."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = links.pages(ROOT)
    for original, name in pages.items():
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(os.path.join(ROOT, original), encoding="utf-8") as file:
            text = file.read()
        with open(target, "w", encoding="utf-8") as file:
            file.write(links.for_site(text, original, name, pages, ROOT, folder))
    for name in ("conf.py", "_static", "_templates"):
        source = os.path.join(ROOT, "docs", name)
        (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, os.path.join(folder, name))


def man_pages(build, folder):
    """Man pages of the C functions and of the command; their number."""
    from taper import _C
    from taper._command import man_page

    shutil.rmtree(folder, ignore_errors=True)
    for section in ("man1", "man3"):
        os.makedirs(os.path.join(folder, section))
    count = 0
    for header in headers.read_all(ROOT, build).values():
        for function in header.functions():
            with open(os.path.join(folder, "man3", function.name + ".3"), "w", encoding="utf-8") as file:
                file.write(headers.man(function, header, _C._version))
            count += 1
    with open(os.path.join(folder, "man1", "taper.1"), "w", encoding="utf-8") as file:
        file.write(man_page(_C._version))
    return count + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--sphinx", metavar="PYTHON", help="a Python that has Sphinx")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    source, site = os.path.join(build, "site-source"), os.path.join(build, "site")
    stage(source)
    reference.main(ROOT, build, source)
    print(f"man pages: {man_pages(build, os.path.join(build, 'man'))}")
    if not options.sphinx:
        return 0
    from taper import _C

    fresh = site + "-new"
    shutil.rmtree(fresh, ignore_errors=True)
    command = [options.sphinx, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto", "-b", "html", "-d"]
    subprocess.run(
        [*command, os.path.join(build, "site-doctrees"), source, fresh],
        check=True,
        env={**os.environ, "TAPER_VERSION": _C._version},
    )
    shutil.rmtree(site, ignore_errors=True)
    os.rename(fresh, site)
    broken = links.check_html(site)
    for line in broken:
        print(line, file=sys.stderr)
    pages = sum(name.endswith(".html") for _, _, files in os.walk(site) for name in files)
    print(f"{pages} pages in {os.path.relpath(site)}, {len(broken)} broken links")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
