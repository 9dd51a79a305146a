#!/usr/bin/env python3
"""Looks at the pages of the documentation: lines of up to 100 columns, paragraphs of up to 80 words. With --fix lines are
wrapped; long paragraphs are for a person to divide.

    tools/pages.py [--fix] FILE...

Tables, code, headings and pages that opgen writes are left alone."""

import re
import sys
import textwrap

COLUMNS, WORDS = 100, 80
ITEM = re.compile(r"(\s*)([-*] |\d+\. )")
ALONE = re.compile(r"\s*(\||#|<|!\[|\[[^\]]+\]: |---|===|:::)|\s{4,}\S")


def pieces(lines):
    """(first line, lines, whether it is prose): paragraphs and list items are prose."""
    fence, prose, start = None, [], 0
    for i, line in enumerate([*lines, ""]):
        mark = re.match(r"\s*(```+|~~~+)", line)
        inside = fence is not None
        if mark and not inside:
            fence = mark.group(1)
        elif mark and line.strip() == fence:
            fence = None
        alone = inside or mark or not line.strip() or (ALONE.match(line) and not (prose and continues(prose, line)))
        if prose and (alone or ITEM.match(line)):
            yield start, prose, True
            prose = []
        if alone:
            if i < len(lines):
                yield i, [line], False
        else:
            start = start if prose else i
            prose.append(line)


def continues(prose, line):
    """A line that is indented as the list item before it goes on with it."""
    item = ITEM.match(prose[0])
    return bool(item) and line.startswith(" " * len(item.group(0))) and not ITEM.match(line) and "|" not in line[:6]


def wrapped(prose):
    item = ITEM.match(prose[0])
    head = item.group(0) if item else re.match(r"\s*", prose[0]).group(0)
    text = " ".join(line.strip() for line in prose)
    text = text[len(head.strip()) :].strip() if item else text
    whole = re.sub(r"`[^`]*`|\]\([^)]*\)", lambda code: code.group(0).replace(" ", "\0"), text)
    lines = textwrap.wrap(
        whole,
        COLUMNS,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def is_safe(lines):
    """No wrapped line begins with what would make it something else."""
    return not any(re.match(r"\s*([-*+] |\d+\. |#|>|\||=)", line) for line in lines[1:])


def main():
    fix, bad = "--fix" in sys.argv[1:2], 0
    for path in sys.argv[1 + fix :]:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        if any("written by opgen" in line.lower() for line in lines[:6]):
            continue
        new = []
        for start, piece, prose in pieces(lines):
            too_long = prose and any(len(line) > COLUMNS for line in piece)
            better = wrapped(piece) if too_long else piece
            if too_long and fix and is_safe(better):
                piece = better
            new += piece
            words = len(" ".join(piece).split())
            if prose and words > WORDS:
                print(f"{path}:{start + 1}: a paragraph of {words} words; up to {WORDS} are easy to read")
                bad = 1
            for k, line in enumerate(piece):
                if prose and len(line) > COLUMNS and " " in line.strip()[:COLUMNS] and is_safe(better):
                    print(f"{path}:{start + k + 1}: longer than {COLUMNS} columns; tools/lint.sh --fix wraps it")
                    bad = 1
        if fix and new != lines:
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(new))
    sys.exit(bad)


if __name__ == "__main__":
    main()
