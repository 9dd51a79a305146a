"""The pages of docs/: links lead somewhere, and programs in them run and print what the page says.

A block of Python runs with the blocks before it on its page, in a folder of the page's own. A block of C, C++ or
Fortran that is a whole program is compiled and run; C without a main function is compiled inside of one. A block of
`text` right behind a program is what it prints; `...` in it stands for anything. Lines of shell blocks that begin with
`taper` are read by the command's own parser. A comment `<!-- not run: why -->` before a block leaves it out.
"""

import atexit
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import pytest

from taper import _environment

ROOT = pathlib.Path(os.environ.get("TAPER_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("TAPER_BUILD_DIR", ROOT / "build"))
sys.path.insert(0, str(ROOT / "tools" / "site"))

import headers  # noqa: E402
import links  # noqa: E402

PAGES = sorted(path for path in links.pages(ROOT) if path.startswith("docs/"))
BLOCK = re.compile(
    r"(?P<skip><!-- not run: [^>]* -->\s*)?^```(?P<language>\w+)\n(?P<code>.*?)^```$(?:\s*^```text\n(?P<says>.*?)^```$)?",
    re.S | re.M,
)
DRIVER = """
import contextlib, io, json, sys
outputs, space = [], {"__name__": "__main__"}
for place, code in json.load(open("blocks.json")):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, place, "exec"), space)
    outputs.append(out.getvalue())
json.dump(outputs, open("outputs.json", "w"))
"""
FRAGMENT = """#include <taper/taper.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
%s
    if (tp_error()) { puts(tp_error()); return 1; }
    return 0;
}
"""


def blocks(page, *languages):
    """(line, code, what it says) of a page's blocks in some languages."""
    text = (ROOT / page).read_text()
    for match in BLOCK.finditer(text):
        if match["language"] in languages and not match["skip"]:
            yield text[: match.start("code")].count("\n") + 1, match["code"], match["says"]


def with_blocks(*languages):
    return [page for page in PAGES if any(True for _ in blocks(page, *languages))]


def same(printed, says):
    """Is it what the page says, where ... stands for anything?"""
    pattern = ".*?".join(re.escape(part) for part in says.rstrip().split("..."))
    return re.fullmatch(pattern, printed.rstrip(), re.S) is not None


def test_links_lead_somewhere():
    pages = [*links.pages(ROOT), "README.md"]
    broken = [line for page in pages for line in links.broken(page, str(ROOT))]
    assert not broken, "\n".join(broken)


def test_every_page_has_one_heading_and_a_place_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text()
    listed = set(re.findall(r"^([\w./-]+)$", "\n".join(re.findall(r"```\{toctree\}(.*?)```", index, re.S)), re.M))
    for page, name in links.pages(ROOT).items():
        text = re.sub(r"```.*?```", "", links.titled((ROOT / page).read_text(), name), flags=re.S)
        assert len(re.findall(r"^# ", text, re.M)) == 1, page
        assert name == "index.md" or name.removesuffix(".md") in listed, f"{page} is not in docs/index.md"


def test_c_names_are_there():
    """What pages call of C's and Fortran's functions is declared, in blocks that are not run and in tables too."""
    folders = [ROOT / "include", ROOT / "fortran", BUILD / "generated"]
    sources = [path for folder in folders for kind in ("*.h", "*.hpp", "*.f90", "*.inc") for path in folder.rglob(kind)]
    known = {name for path in sources for name in re.findall(r"\btp_\w+", path.read_text())}
    # Pages on how to add something have names that are the reader's own.
    pages = [page for page in [*PAGES, "README.md"] if "/adding-" not in page]
    used = {(page, name) for page in pages for name in re.findall(r"\btp_[a-z0-9_]+(?=\()", (ROOT / page).read_text())}
    assert len(used) > 200
    assert not sorted((page, name) for page, name in used if name not in known)


def test_every_c_function_is_described():
    """A function has a comment, stands beside one that has, or in a section whose text is of all in it."""
    for path in sorted((ROOT / "include/taper").glob("*.h")):
        for section in headers.read(path).sections:
            for function in section.functions:
                assert function.about() or section.text, f"{path.name}: {function.name} has no comment"


def test_man_pages_keep_code_and_signatures():
    header = headers.read(ROOT / "include/taper/nn.h")
    page = headers.man(header.functions()[0], header, "1.0")
    assert "one more reference" in page.split(".SH DESCRIPTION")[0].lower()
    operator = headers.Function(
        "tp_f", "tp_tensor *tp_f(tp_tensor *x)", "f(Tensor x) -> Tensor\nTwice x. Example:\n\n    y = f(x);"
    )
    header.sections[0].functions.append(operator)
    page = headers.man(operator, header, "1.0")
    assert "tp_f \\- Twice x\n" in page and ".nf\nf(Tensor x) \\-> Tensor\n.fi\n" in page
    assert ".nf\n    y = f(x);\n.fi\n" in page


def test_default_lists_are_shown_as_they_are_written():
    options = [("tp_ints", "stride", "tp_ints_view(tp_ints_1_m2_, 2)", "")]
    shown = headers.Function("tp_f", "int tp_f_with(int x, const tp_f_options *options)", "", options).call()
    assert shown == "int tp_f(int x, .stride = TP_INTS(1, -2))"


def test_every_variable_is_described():
    text = (ROOT / "docs" / "environment.md").read_text()
    sources = [
        path
        for folder in ("src", "python")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".c", ".h", ".py") and path.name != "_environment.py"
    ]
    read = {name for path in sources for name in re.findall(r'"(TAPER_[A-Z_]+)"', path.read_text())}
    described = set(re.findall(r"`(TAPER_[A-Z_]+)`", text))
    assert len(read) > 20, read ^ described
    assert read == described, read ^ described
    assert set(_environment.VARIABLES) == described, set(_environment.VARIABLES) ^ described


@pytest.mark.parametrize("page", with_blocks("python"))
def test_python_on(page, tmp_path):
    found = list(blocks(page, "python"))
    (tmp_path / "blocks.json").write_text(json.dumps([(f"{page}:{line}", code) for line, code, _ in found]))
    (tmp_path / "driver.py").write_text(DRIVER)
    start = ["launch", "--nproc", "1"] if "init_process_group" in (ROOT / page).read_text() else ["run"]
    done = subprocess.run(
        [sys.executable, "-m", "taper", *start, "driver.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    for (line, _, says), printed in zip(found, json.loads((tmp_path / "outputs.json").read_text())):
        assert says is None or same(printed, says), f"{page}:{line} prints\n{printed}\nnot\n{says}"


@functools.cache
def fortran_module():
    """The folder with Fortran's module, compiled once for all programs."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    subprocess.run(["gfortran", "-c", f"{BUILD}/generated/include/taper/taper.f90"], cwd=folder, check=True)
    return folder


def compiled(code, language, folder):
    """Compiles a program; the command that runs it."""
    compiler = {"c": ["cc", "-std=gnu11"], "cpp": ["c++", "-std=c++17"], "fortran": ["gfortran"]}[language]
    ending = {"c": "c", "cpp": "cpp", "fortran": "f90"}[language]
    if language == "c" and "int main" not in code:
        code = FRAGMENT % code
    (folder / f"program.{ending}").write_text(code)
    sources = [f"-I{fortran_module()}", f"{fortran_module()}/taper.o"] if language == "fortran" else []
    include = [f"-I{ROOT}/include", f"-I{BUILD}/generated/include"]
    warn = ["-Wall", "-Werror", "-Wno-unused-variable"] if language != "fortran" else []
    command = [*compiler, *warn, *include, f"program.{ending}", *sources, "-o", "program"]
    subprocess.run([*command, f"-L{BUILD}", "-ltaper", f"-Wl,-rpath,{BUILD}"], cwd=folder, check=True)
    return [str(folder / "program")]


@pytest.mark.parametrize("page", with_blocks("c", "cpp", "fortran"))
def test_programs_on(page, tmp_path):
    for language in ("c", "cpp", "fortran"):
        if language == "fortran" and not shutil.which("gfortran"):
            continue
        for number, (line, code, says) in enumerate(blocks(page, language)):
            folder = tmp_path / f"{language}{number}"
            folder.mkdir()
            done = subprocess.run(
                compiled(code, language, folder), cwd=folder, capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0, f"{page}:{line}\n{done.stdout}{done.stderr}"
            assert says is None or same(done.stdout, says), f"{page}:{line} prints\n{done.stdout}\nnot\n{says}"


@pytest.mark.parametrize("page", with_blocks("sh"))
def test_commands_on(page):
    from taper._command import COMMANDS, _own_options, parser_of

    for line, code, _ in blocks(page, "sh"):
        for text in re.findall(r"\btaper ([a-z]+ ?[^\n|#;&>]*)", code):
            name, *given = shlex.split(text)
            assert name in COMMANDS, f"{page}:{line}: taper {text}"
            parser = parser_of(name)
            if name not in ("run", "profile"):
                parser.parse_args(given)
            else:
                assert len(given) > _own_options(parser, given), f"{page}:{line}: taper {text}"
