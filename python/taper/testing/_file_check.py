"""torch.testing.FileCheck: whether a text has some pieces in an order."""

import re


class FileCheck:
    """Checks are made in the order in which they were asked for: each looks behind what the one before it found."""

    def __init__(self):
        self._checks = []

    def _add(self, kind, text, count=1, exactly=False):
        self._checks.append((kind, text, count, exactly))
        return self

    def check(self, text):
        return self._add("check", text)

    def check_not(self, text):
        """It must not be between what is found before and what is found after it."""
        return self._add("not", text)

    def check_same(self, text):
        """In the line of what was found before."""
        return self._add("same", text)

    def check_next(self, text):
        """In the line after it."""
        return self._add("next", text)

    def check_count(self, text, count, exactly=False):
        return self._add("count", text, count, exactly)

    def check_dag(self, text):
        """Such checks that follow each other are found in any order."""
        return self._add("dag", text)

    def check_regex(self, text):
        return self._add("regex", text)

    def check_source_highlighted(self, text):
        return self._add("check", text)

    def run(self, test_file):
        """Raises a RuntimeError where the text does not have it."""
        text, at, behind, forbidden, i = str(test_file), 0, 0, [], 0
        while i < len(self._checks):
            kind, piece, count, exactly = self._checks[i]
            if kind == "not":
                forbidden.append(piece)
                i += 1
                continue
            if kind == "dag":
                begin = end = at
                while i < len(self._checks) and self._checks[i][0] == "dag":
                    found = self._find(text, self._checks[i][1], begin)
                    end = max(end, found + len(self._checks[i][1]))
                    i += 1
                first, at = begin, end
            else:
                first, at = self._one(text, kind, piece, count, exactly, at)
                i += 1
            self._refuse(text, forbidden, behind, first)
            forbidden, behind = [], at
        self._refuse(text, forbidden, at, len(text))

    @staticmethod
    def _find(text, piece, at, end=None):
        found = text.find(piece, at, len(text) if end is None else end)
        if found < 0:
            raise RuntimeError(f"Expected to find {piece!r} but did not find it\nSearched string:\n{text[at:]}")
        return found

    def _one(self, text, kind, piece, count, exactly, at):
        """Where it begins and ends."""
        if kind == "regex":
            found = re.compile(piece).search(text, at)
            if found is None:
                raise RuntimeError(
                    f"Expected to find regex {piece!r} but did not find it\nSearched string:\n{text[at:]}"
                )
            return found.span()
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        if kind == "same":
            first = self._find(text, piece, at, line_end)
        elif kind == "next":
            second_end = text.find("\n", line_end + 1)
            first = self._find(text, piece, line_end, len(text) if second_end < 0 else second_end)
        else:
            first = self._find(text, piece, at)
        end = first + len(piece)
        for _ in range(count - 1):
            end = self._find(text, piece, end) + len(piece)
        if exactly and text.find(piece, end) >= 0:
            raise RuntimeError(f"Expected to not find {piece!r} but found it\nSearched string:\n{text[end:]}")
        return first, end

    @staticmethod
    def _refuse(text, forbidden, begin, end):
        for piece in forbidden:
            if text.find(piece, begin, end) >= 0:
                raise RuntimeError(f"Expected to not find {piece!r} but found it\nSearched string:\n{text[begin:end]}")
