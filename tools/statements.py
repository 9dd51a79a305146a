#!/usr/bin/env python3
"""Finds statements of C that are chained by commas ("a = 1, b = 2;", "return free(p), NULL;"): CONTRIBUTING.md wants one
statement a line. With --fix they are written out; clang-format then lays them out.

    tools/statements.py [--fix] FILE...

Comments, texts and preprocessor lines are left alone, as are declarations and the heads of loops."""

import re
import sys

TOKENS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
HEAD = re.compile(r"\s*(else\b|(?:if|for|while|switch)\s*\()")
LABEL = re.compile(r"\s*(?:case\b[^:?]*:|default\s*:|[A-Za-z_]\w*\s*:(?!:))")
DECLARATION = re.compile(
    r"(?:const|static|extern|unsigned|signed|struct|union|enum|typedef|_Alignas|_Thread_local|_Static_assert|TPI_THREAD_LOCAL)\b"
    r"|(?!return\b|goto\b)(?:[A-Za-z_]\w*\s+)*[A-Za-z_]\w*(?:\s+\**|\s*\*+\s*)(?:const\s+)?[A-Za-z_]\w*\s*(?:=|,|;|\[|$)"
)
COMMENT_BEHIND = re.compile(r"[ \t]*(/\*[^\n]*?\*/)[ \t]*(?=\n)")


def blank(match):
    text = match.group(0)
    if text[0] in "\"'":
        return text[0] + "_" * (len(text) - 2) + text[-1]
    return re.sub(r"[^\n]", " ", text)


def masked(code):
    """The code, as long as it was, without what commas mean nothing in."""
    return DIRECTIVE.sub(blank, TOKENS.sub(blank, code))


def closing(code, at):
    """Behind the parenthesis that closes the one before `at`."""
    depth = 1
    while depth:
        depth += (code[at] == "(") - (code[at] == ")")
        at += 1
    return at


def opens_block(code, at):
    """Does the brace at that place open a block, and not a list of values?"""
    before = code[:at].rstrip()
    if before.endswith(")"):
        depth, i = 0, len(before)
        while i and (depth or i == len(before)):
            i -= 1
            depth += (before[i] == ")") - (before[i] == "(")
        word = re.search(r"[A-Za-z_]\w*$", before[:i].rstrip())
        return bool(word) and word.group(0) not in ("return", "sizeof", "case")
    if before.endswith(":"):
        return not re.search(r"\?[^;{}]*:$", before[-200:])
    return not before.endswith(tuple("=,([&|?]"))


def statements(code):
    """Where each statement that ends in a semicolon begins and ends, inside of functions."""
    braces, parentheses, start = [], 0, 0
    for i, c in enumerate(code):
        if c in "([":
            parentheses += 1
        elif c in ")]":
            parentheses -= 1
        elif c == "{":
            if parentheses == 0 and opens_block(code, i):
                is_type = re.search(r"\b(?:struct|union|enum)\b[^()=;]*$", code[start:i])
                braces.append(("type" if is_type else "code", 0))
                start = i + 1
            else:
                braces.append(("list", parentheses))
                parentheses = 1 << 20
        elif c == "}" and braces:
            kind, before = braces.pop()
            if kind == "list":
                parentheses = before
            else:
                start = i + 1
        elif c == ";" and parentheses == 0:
            if braces and braces[-1][0] == "code":
                yield start, i + 1
            start = i + 1


def parts(code, start, end):
    """The pieces between commas that no bracket and no choice ("a ? b, c : d") encloses."""
    depth, cuts = 0, [start]
    for i in range(start, end):
        depth += (code[i] in "([{?") - (code[i] in ")]}:")
        if code[i] == "," and depth == 0:
            cuts.append(i + 1)
    return [(a, b) for a, b in zip(cuts, [cut - 1 for cut in cuts[1:]] + [end], strict=True)]


def chains(code):
    """Of each chain: its start, its end, its parts, and whether an if, an else or a loop is in front of it."""
    for start, end in statements(code):
        at, headed = start, False
        while True:
            label, head = LABEL.match(code, at), HEAD.match(code, at)
            if label and label.end() < end:
                at = label.end()
            elif head and head.end() <= end:
                headed = True
                at = closing(code, head.end()) if code[head.end() - 1] == "(" else head.end()
            else:
                break
        at += len(code[at:end]) - len(code[at:end].lstrip())
        if re.match(r"do\b|__attribute__", code[at:end]) or DECLARATION.match(code[at:end]):
            continue
        value = at + 6 if re.match(r"return\b", code[at:end]) else at
        pieces = parts(code, value, end - 1)
        if len(pieces) > 1:
            yield at, end, pieces, headed


def written_out(code):
    bare, out, last = masked(code), [], 0
    for start, end, pieces, headed in chains(bare):
        texts = [code[a:b].strip() for a, b in pieces]
        if any("/*" in text for text in texts):
            continue  # whose comment is it?
        if re.match(r"return\b", bare[start:end]):
            texts[-1] = "return " + texts[-1]
        indent = re.match(r"\s*", re.search(r"[^\n]*$", code[:start]).group(0)).group(0)
        comment = COMMENT_BEHIND.match(code[end:])
        note = comment.group(1) if comment else ""
        lines = [text + ";" for text in texts]
        if headed:
            new = "{ " + note + "\n" + "".join(f"{indent}    {line}\n" for line in lines) + indent + "}"
        else:
            new = ("\n" + indent).join([note] * bool(note) + lines)
        out += [code[last:start], new]
        last = end + (comment.end() if comment else 0)
    return "".join(out) + code[last:]


def main():
    fix, found = "--fix" in sys.argv[1:2], 0
    for path in sys.argv[1 + fix :]:
        with open(path, encoding="utf-8") as file:
            code = file.read()
        if fix:
            new = written_out(code)
            if new != code:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(new)
            code = new
        for start, _, _, _ in chains(masked(code)):
            print(f"{path}:{code.count(chr(10), 0, start) + 1}: several statements, chained by commas")
            found += 1
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
