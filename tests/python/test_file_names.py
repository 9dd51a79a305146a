"""What the sources say of files: a file that a comment or a README names is there. Each folder of the library, and each
of the tree's main folders, has a README of at most forty lines."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("src", "python/ext", "tools", "tables", "include/taper", "fortran")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
NAMED = re.compile(r"(?<![\w./<*-])((?:[\w-]+/)*[\w-]{3,}(?:\.isa)?\.(?:c|h|op))\b(?![\w.])")
GENERATED = re.compile(r"(tpi_\w+|\w+_(glue|texts|samples|updates)|samples|layer_samples|ops|layers|optimisers)\.[ch]$")
OUTSIDE = {"Python.h", "jpeglib.h", "zlib.h", "png.h", "mpi.h", "cblas.h"}


def files(*suffixes):
    return sorted(p for folder in SOURCES for p in (ROOT / folder).rglob("*") if p.name.endswith(suffixes))


def named(text):
    """Names of files in a text; those with NAME or FAMILY stand for many."""
    return [n for n in NAMED.findall(text) if not re.search(r"NAME|FAMILY|^_", n)]


def missing(text, there):
    found = [n for n in named(text) if n not in OUTSIDE and not GENERATED.search(n)]
    return [n for n in found if not any(p == n or p.endswith("/" + n) for p in there)]


def test_files_that_are_named_are_there():
    folders = (*SOURCES, "tests", "examples", "bench")
    there = [str(p.relative_to(ROOT)) for folder in folders for p in (ROOT / folder).rglob("*.*")]
    offences = []
    for path in files(".c", ".h", "README.md"):
        text = path.read_text()
        parts = COMMENT.findall(text) if path.suffix in (".c", ".h") else [text]
        offences += [f"{path.relative_to(ROOT)}: {name}" for part in parts for name in missing(part, there)]
    assert not offences, "\n".join(offences)


def test_each_folder_has_a_short_readme():
    folders = {p.parent for p in (ROOT / "src").rglob("*.[ch]")}
    assert len(folders) > 40
    others = "cmake fortran packaging python/ext python/taper src tables tests tools tools/opgen"
    folders |= {ROOT / name for name in others.split()}
    for folder in sorted(folders):
        readme = folder / "README.md"
        assert readme.is_file(), folder
        assert len(readme.read_text().splitlines()) <= 40, readme


def test_the_test_finds_names():
    there = ["src/ops/norm/softmax.c", "src/tensor/tensor.h"]
    assert missing("see softmax.c and ops/norm/softmax.c, NAME_gpu.c, tpi_ops.h, Python.h", there) == []
    assert missing("see take.c and gpu/softmax.c", there) == ["take.c", "gpu/softmax.c"]
