"""The site's reference: every operator that Python names has an example, each example prints what it says, every C
function is found."""

import os
import pathlib
import re
import sys
import warnings

ROOT = pathlib.Path(os.environ.get("TAPER_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("TAPER_BUILD_DIR", ROOT / "build"))
sys.path[:0] = [str(ROOT / "tools" / "site"), str(ROOT / "tests")]

import every_function  # noqa: E402
import examples  # noqa: E402
import headers  # noqa: E402
import reference  # noqa: E402

import taper  # noqa: E402


def run(name, text):
    """Runs an example as it stands on the page, and compares what it prints."""
    lines = text.split("\n")
    typed = [line[4:] for line in lines if line.startswith(">>> ")]
    says = "\n".join(lines[len(typed) :])
    space = {"torch": taper, "F": taper.nn.functional, "nn": taper.nn}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in typed[:-1]:
            exec(line, space)
        printed = repr(eval(typed[-1], space)).rstrip()
    same = printed.startswith(says[: -len("...")]) if says.endswith("\n...") else printed == says
    assert same, f"{name}:\n{text}\nprints\n{printed}"


def test_every_operator_has_an_example_that_runs():
    known = examples.samples(ROOT)
    missing = set()
    for name, *_ in taper._C._operators():
        text = examples.of_operator(name, known[name][1]) if examples.spelled(name) else None
        if text:
            run(name, text)
        elif examples.spelled(name) and not name.startswith("_"):
            missing.add(name)
    assert missing == set()


def test_layers_examples_run():
    by_name = {}
    for name, _, text, *_ in reference._layer_samples(str(BUILD)):
        by_name.setdefault(name, []).append(text)
    without = set()
    for name, texts in by_name.items():
        example = examples.of_first(name, texts)
        if example is None:
            without.add(name)
        else:
            run(name, example)
    for name in examples.WRITTEN_LAYERS:
        run(name, examples.of_first(name, ()))
    assert len(by_name) > 120
    assert not without


def test_every_layer_of_the_reference_has_an_example(tmp_path):
    count, shown = reference.layers(str(ROOT), str(BUILD), str(tmp_path))
    pages = "".join(path.read_text() for path in (tmp_path / "reference" / "layers").glob("*.md"))
    entries = [part for part in re.split(r"^## ", pages, flags=re.M)[1:] if ">>>" not in part]
    # Two that others are derived from, and that compute nothing by themselves.
    assert {part.split("\n")[0] for part in entries} == {"RNNBase", "RNNCellBase"}
    assert count == shown + 2


def test_the_operators_pages_tell_the_forms(tmp_path):
    count, shown = reference.operators(str(ROOT), str(BUILD), str(tmp_path))
    pages = "".join(path.read_text() for path in (tmp_path / "reference" / "operators").glob("*.md"))
    entries = dict(part.split("\n", 1) for part in re.split(r"^## ", pages, flags=re.M)[1:])
    assert count == len(taper._C._operators())
    assert shown > 700
    assert (
        "method `x.abs`; in place `abs_`, in C `tp_abs_`; into a given tensor `out=`, in C `tp_abs_out`"
        in entries["abs"]
    )
    assert "tp_softmax_out" not in entries["softmax"]
    assert "out=" not in entries["_convolution_mode"]


def test_pages_of_python_names_hold_nothing_of_this_machine(tmp_path):
    """No path and no address; every name says what it is."""
    assert reference.python_pages(str(ROOT), str(tmp_path)) > 3000
    pages = {path.stem: path.read_text() for path in (tmp_path / "reference" / "python").glob("*.md")}
    for name, text in pages.items():
        assert not re.search(r" at 0x|from '/|getset_descriptor", text), name
        assert sys.prefix not in text, name
    assert "torch.fft.fft(Tensor" in pages["torch.fft"]
    assert "An attribute. Bytes of an element." in pages["torch.dtype"]
    assert "activation=relu" in pages["torch.nn"]
    assert "autowrap_modules=(math,)" in pages["torch.fx"]


def test_every_c_function_is_in_the_reference():
    found, declared = set(), set()
    for folder in (ROOT / "include" / "taper", BUILD / "generated" / "include" / "taper"):
        for path in folder.glob("*.h"):
            found |= {function.name for function in headers.read(str(path)).functions()}
            for declaration in every_function.declarations(path.read_text()):
                name = re.search(r"\b(tp_\w+)\s*\(", declaration)
                declared |= {name[1]} if name else set()
    lost = {name for name in declared - found if name.removesuffix("_with") not in found}
    assert len(declared) > 1900, sorted(lost)[:20]
    assert not lost, sorted(lost)[:20]


def test_a_header_is_read_with_its_comments_and_options(tmp_path):
    (tmp_path / "small.h").write_text(
        """/* What it is for. */
#define TP_X 1
/* ---- Making ----
 * How they are made. */
/* Makes one; NULL on failure. */
typedef struct tp_make_options {
    TP_STRUCT_SIZE(tp_make_options);
    tp_ints dims TP_MEMBER({NULL, 0}); /* which */
} tp_make_options;
TP_API tp_tensor *tp_make_with(int64_t n, const tp_make_options *options);
TP_API void tp_unmake(tp_tensor *t); /* NULL is fine */

TP_API int tp_plain(void);
"""
    )
    header = headers.read(str(tmp_path / "small.h"))
    made, unmade, plain = header.functions()
    assert header.text == "What it is for."
    assert header.sections[1].title == "Making"
    assert (made.name, made.text) == ("tp_make", "Makes one; NULL on failure.")
    assert made.call() == "tp_tensor *tp_make(int64_t n, .dims = {NULL, 0})"
    assert (unmade.text, plain.text) == ("NULL is fine", "")
    assert ".SH SYNOPSIS" in headers.man(made, header, "1.0") and "### tp_unmake" in headers.page(header)
    assert "- `.dims`: which\n" in headers.page(header)
    assert ".B .dims\nwhich\n" in headers.man(made, header, "1.0")
