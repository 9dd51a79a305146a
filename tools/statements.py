#!/usr/bin/env python3
"""Finds what hides a statement inside of another in C: CONTRIBUTING.md wants one statement a line.

- chains by commas, on their own ("a = 1, b = 2;", "return free(p), NULL;") and in parentheses ("ok ? p : (free(p), NULL)")
- declarations with side effects: an initialiser that assigns ("entry *e = a->e = make();"), or that counts in a
  declaration of several variables ("int a = b[n++], c = n;")
- lines on which a choice holds a choice that holds a choice ("a ? b : c ? d : e ? f : g")
- products that clang-format took for declarations, and cut before the star

With --fix, chains that are statements on their own are written out; clang-format then lays them out.

    tools/statements.py [--fix] FILE...

Comments, texts and preprocessor lines are left alone, as are the heads of loops."""

import functools
import re
import sys

TOKENS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
HEAD = re.compile(
    r"\s*(else\b|(?:[A-Z][A-Z0-9_]*\s+)?(?:if|for|while|switch)\s*\()"
)  # "UNROLL for (" has a macro in front
MACRO_HEAD = re.compile(r"\s*(?!return\b|sizeof\b)[A-Za-z_]\w*\s*\(")  # "TPI_EACH(i, n) statement;"
LABEL = re.compile(r"\s*(?:case\b[^:?]*:|default\s*:|[A-Za-z_]\w*\s*:(?!:))")
DECLARATION = re.compile(
    r"(?:const|static|extern|unsigned|signed|struct|union|enum|typedef|_Alignas|_Thread_local|_Static_assert|TPI_THREAD_LOCAL)\b"
    r"|(?!return\b|goto\b)(?:[A-Za-z_]\w*\s+)*[A-Za-z_]\w*(?:\s+\**|\s*\*+\s*)(?:const\s+|restrict\s+)?[A-Za-z_]\w*\s*(?:=|,|;|\[|$)"
    r"|[A-Z]\(\w+\)\s+\**[A-Za-z_]\w*\s*(?:=|,|;|\[|$)"
)
# "F(vector) a, b;": a type whose name is made by a macro of one letter, as files for several element types have them.
MADE_TYPE = re.compile(r"\s*[A-Z]\(\w+\)\s+\**[A-Za-z_]")
DESIGNATOR = re.compile(r"(?:\.\w+|\[[^\]]*\])+\s*=")  # ".name = value" of a list, or of an option
COUNTS = re.compile(r"\+\+|--")
BRACKETS = re.compile(r"[()\[\]{},]")
NAME_BEFORE = re.compile(r"(\w+|[)\]])\s*\Z")
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


def before(code, at):
    """The place behind the last character before `at` that is not white space."""
    while at and code[at - 1].isspace():
        at -= 1
    return at


def opening(code, end):
    """Where the parenthesis opens that closes right before `end`."""
    depth, i = 0, end
    while i and (depth or i == end):
        i -= 1
        depth += (code[i] == ")") - (code[i] == "(")
    return i


def opens_block(code, at):
    """Does the brace at that place open a block, and not a list of values?"""
    end = before(code, at)
    last = code[end - 1 : end]
    if last == ")":
        i = before(code, opening(code, end))
        if code[i - 1 : i] == ")":  # "void TPI_ISA(name)(int64_t n) {": a macro makes the function's name
            i = before(code, opening(code, i))
            return bool(re.search(r"\b[A-Z][A-Z0-9_]*$", code[max(0, i - 80) : i]))
        word = re.search(r"[A-Za-z_]\w*$", code[max(0, i - 80) : i])
        return bool(word) and word.group(0) not in ("return", "sizeof", "case")
    if last == ":":
        return not re.search(r"\?[^;{}]*:$", code[max(0, end - 200) : end])
    return last == "" or last not in "=,([&|?]"


@functools.lru_cache(maxsize=1)  # several searches go through one file
def statements(code):
    """Where each statement that ends in a semicolon begins and ends, inside of functions."""
    return list(each_statement(code))


def each_statement(code):
    braces, parentheses, start, declares = [], 0, 0, False
    for mark in re.finditer(r"[()\[\]{};]", code):
        c, i = mark.group(), mark.start()
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
            kind, outside = braces.pop()
            if kind == "list":
                parentheses = outside
            else:
                start = i + 1
                declares = kind == "type"  # what follows a type's brace are the names of its variables
        elif c == ";" and parentheses == 0:
            if braces and braces[-1][0] == "code" and not declares:
                yield start, i + 1
            start, declares = i + 1, False


def parts(code, start, end):
    """The pieces between commas that no bracket and no choice ("a ? b, c : d") encloses."""
    depth, cuts = 0, [start]
    for i in range(start, end):
        depth += (code[i] in "([{?") - (code[i] in ")]}:")
        if code[i] == "," and depth == 0:
            cuts.append(i + 1)
    return [(a, b) for a, b in zip(cuts, [cut - 1 for cut in cuts[1:]] + [end], strict=True)]


def macro_head(code, at, end):
    """Behind a macro with arguments that stands in front of a statement, as a loop's head does; else 0."""
    head = MACRO_HEAD.match(code, at)
    if not head or head.end() >= end or MADE_TYPE.match(code[at:end]):
        return 0
    behind = closing(code, head.end())
    return behind if behind < end and re.match(r"\s*[A-Za-z_]", code[behind:end]) else 0


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
            elif behind := macro_head(code, at, end):
                at, headed = behind, True
            else:
                break
        at += len(code[at:end]) - len(code[at:end].lstrip())
        if re.match(r"do\b|__attribute__|__asm__", code[at:end]) or DECLARATION.match(code[at:end]):
            continue
        if code.find(",", at, end) < 0:
            continue
        value = at + 6 if re.match(r"return\b", code[at:end]) else at
        pieces = parts(code, value, end - 1)
        if len(pieces) > 1:
            yield at, end, pieces, headed


def hidden_chains(code):
    """Where a chain by commas is in parentheses that are no call's."""
    for start, end in statements(code):
        open_brackets = []
        for mark in BRACKETS.finditer(code, start, end):
            c, i = mark.group(), mark.start()
            if c in "([{":
                word = NAME_BEFORE.search(code, max(start, i - 80), i)
                named = word and word.group(1) not in ("return", "case", "else")
                open_brackets.append(c == "(" and not named)
            elif c == "," and open_brackets and open_brackets[-1]:
                yield i
            elif c != "," and open_brackets:
                open_brackets.pop()


def side_effects(code):
    """Where a declaration's initialiser changes another variable."""
    for start, end in statements(code):
        if code.count("=", start, end) < 2 and not COUNTS.search(code, start, end):
            continue
        at = start + len(code[start:end]) - len(code[start:end].lstrip())
        if HEAD.match(code, at) or not DECLARATION.match(code[at:end]):
            continue
        pieces = parts(code, at, end - 1)
        for a, b in pieces:
            _, declares, value = re.sub(r"[=!<>]=", "__", code[a:b]).partition("=")
            value = DESIGNATOR.sub("", value)
            if declares and ("=" in value or (len(pieces) > 1 and COUNTS.search(value))):
                yield at
                break


def choices(code, at, end):
    """How deep choices nest in the expression at that place, by the place where their line begins; and where the
    expression ends."""
    deep = {}
    while at < end and code[at] not in ")]},;:":
        if code[at] in "([{":
            while at < end and code[at] not in ")]}":
                inner, at = choices(code, at + 1, end)
                deep = merged(deep, inner)
            at += 1
        elif code[at] == "?":
            line = code.rfind("\n", 0, at)
            chosen, at = choices(code, at + 1, end)
            other, at = choices(code, at + 1, end)
            deep = merged(deep, merged(chosen, other))
            return deep | {line: deep.get(line, 0) + 1}, at
        else:
            at += 1
    return deep, at


def merged(a, b):
    return {line: max(a.get(line, 0), b.get(line, 0)) for line in {**a, **b}}


def nested_choices(code):
    """Where lines begin on which choices nest three deep."""
    found = set()
    for at, end in statements(code):
        while at < end and code.count("?", at, end) > 2:
            deep, at = choices(code, at, end)
            found.update(line + 1 for line, depth in deep.items() if depth > 2)
            at += 1
    return sorted(found)


def cut_products(code):
    """Where a line that begins with an operator goes on with the product that the line before began."""
    for mark in re.finditer(r"[\w)\]]\s*\n\s*[*/&]", code):
        end = mark.start() + 1
        begun = re.search(r"[^;{}]*$", code[:end]).group()
        if not re.search(r"[-+/=?]|\breturn\b", begun):  # a type, and the name behind it
            continue
        if code[mark.start()] == ")":
            end = before(code, opening(code, end))
        word = re.search(r"\w*$", code[max(0, end - 20) : end]).group()
        if word not in ("if", "for", "while", "switch", "else", "do"):
            yield mark.end() - 1


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
        bare = masked(code)
        faults = [(start, "several statements, chained by commas") for start, _, _, _ in chains(bare)]
        faults += [(start, "a chain by commas in parentheses") for start in hidden_chains(bare)]
        faults += [(start, "a declaration that changes another variable") for start in side_effects(bare)]
        faults += [(start, "choices nest three deep on a line") for start in nested_choices(bare)]
        faults += [
            (start, "a product cut before its operator: write its factors in another order")
            for start in cut_products(bare)
        ]
        for start, what in sorted(faults):
            print(f"{path}:{code.count(chr(10), 0, start) + 1}: {what}")
        found += len(faults)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
