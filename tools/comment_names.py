#!/usr/bin/env python3
"""Finds names in comments of C that nothing is called: a function or variable that was renamed, moved or removed.

    tools/comment_names.py

A name here is a word with an underscore. It must stand somewhere outside of comments (in C, in the tables, in Python,
Fortran or a script) or be a file's. Left alone are names with a blank to fill in (inner_NAME), formulas (x_j), and
constants that are said without their prefix, and what is quoted."""

import re
import subprocess
import sys

COMMENT = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|//[^\n]*|/\*.*?\*/", re.S)
NAME = re.compile(r"\b[A-Za-z]\w*_\w*[A-Za-z0-9]\b")
WORD = re.compile(r"\w+")
PREFIX = re.compile(r"^(?:tp|tpi|tpo|tpk|tpt|tpy)_")  # in front of what the tables or a macro name
BLANK_OR_FORMULA = re.compile(r"\w*_[A-Z]{1,}(?:_\w+)?|[A-Z]+_[a-z]+|\w{1,3}_\w")
QUOTED = re.compile(r'"[^"\n]*"')
OTHERS = frozenset(  # names of other projects; of variables in examples; what macros and opgen put together
    """
    AVX512_BF16 CUpti_ActivityKind CUpti_ExternalCorrelationKind PyArg_Parse STACK_GLOBAL compute_90 ml_dtypes nth_element
    target_clones
    GET_NAME I_1 SET_NAME THE_CPU_FUNCTION THE_GPU_FUNCTION name_mask other_offset other_size weight_rows
    batch_norm2d bce_with_logits_loss bias_ih_l0 e_self el_bessel_j0 el_max el_min fold_stretch_sum_f32 inner_mul max_dim
    tp_upper_t weight_ih_l0_reverse y1_f64
    """.split()
)


def parts(text):
    """(first line, text, whether it is a comment)."""
    at, line = 0, 1
    for match in COMMENT.finditer(text):
        yield line, text[at : match.start()], False
        line += text.count("\n", at, match.start())
        yield line, match.group(), match.group().startswith("/")
        line += match.group().count("\n")
        at = match.end()
    yield line, text[at:], False


def read(name):
    with open(name, encoding="utf-8", errors="replace") as file:
        return file.read()


def main():
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    code = [name for name in tracked if name.endswith((".c", ".h"))]
    words, comments = set(), []
    for name in tracked:
        if name in code:
            for line, text, comment in parts(read(name)):
                if comment:
                    comments.append((name, line, text))
                else:
                    words.update(WORD.findall(text))
        elif name.endswith(
            (".op", ".opt", ".layer", ".py", ".pyi", ".f90", ".cmake", "CMakeLists.txt", ".sh", ".hpp", ".cpp", ".cc")
        ):
            words.update(WORD.findall(read(name)))
        for part in re.split(r"[/.]", name):
            words.add(part)
    ends = {word[at + 1 :] for word in words if word.isupper() for at, c in enumerate(word) if c == "_"}
    bad = 0
    for name, start, text in comments:
        for match in NAME.finditer(QUOTED.sub(lambda quoted: " " * len(quoted.group()), text)):
            found = match.group().removesuffix("_with")  # the function behind a macro that takes options
            if found in words or found in ends or found in OTHERS or PREFIX.sub("", found) in words:
                continue
            if re.fullmatch(BLANK_OR_FORMULA, found) and not found.isupper():
                continue
            print(f"{name}:{start + text.count(chr(10), 0, match.start())}: no code is called {found}")
            bad += 1
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
