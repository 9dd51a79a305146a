"""torchtext.datasets, from files on disk: each function gives the splits as iterables of rows. Taper downloads nothing
by itself."""

import csv
import os

ROOT = os.path.join(os.path.expanduser("~"), ".cache", "torch", "text", "datasets")


class _Rows:
    """The rows of a file, read anew each time they are gone through."""

    def __init__(self, path, read):
        self._path, self._read = path, read
        if not os.path.exists(path):
            raise RuntimeError(
                f"Taper downloads nothing by itself: please put the dataset's file to {path} and run again"
            )

    def __iter__(self):
        return self._read(self._path)


def _splits(root, name, files, split, read):
    """An iterable for each split asked for: one alone for a text, a tuple for several."""
    wanted = (split,) if isinstance(split, str) else tuple(split)
    for part in wanted:
        if part not in files:
            raise ValueError(f"Given split selection {split!r} does not match with splits {tuple(files)}")
    found = []
    for part in wanted:
        places = [
            os.path.join(root, name, files[part]),
            os.path.join(root, files[part]),
            os.path.join(root, "datasets", name, files[part]),
        ]
        found.append(_Rows(next((p for p in places if os.path.exists(p)), places[0]), read))
    return found[0] if isinstance(split, str) else tuple(found)


def _lines(path):
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield line


def _labelled(path):
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            yield int(row[0]), " ".join(row[1:])


def AG_NEWS(root=ROOT, split=("train", "test")):
    """(label from 1 to 4, text)"""
    return _splits(root, "AG_NEWS", {"train": "train.csv", "test": "test.csv"}, split, _labelled)


def _reviews(folder):
    for label, kind in ((1, "neg"), (2, "pos")):
        inner = os.path.join(folder, kind)
        for name in sorted(os.listdir(inner)):
            with open(os.path.join(inner, name), encoding="utf-8") as file:
                yield label, file.read()


def IMDB(root=ROOT, split=("train", "test")):
    """(1 for bad and 2 for good, text), from aclImdb/train and aclImdb/test"""
    return _splits(root, "IMDB", {part: os.path.join("aclImdb", part) for part in ("train", "test")}, split, _reviews)


def _wikitext(number, root, split):
    files = {part: os.path.join(f"wikitext-{number}", f"wiki.{part}.tokens") for part in ("train", "valid", "test")}
    return _splits(root, f"WikiText{number}", files, split, _lines)


def WikiText2(root=ROOT, split=("train", "valid", "test")):
    """Lines of text."""
    return _wikitext(2, root, split)


def WikiText103(root=ROOT, split=("train", "valid", "test")):
    """Lines of text."""
    return _wikitext(103, root, split)


def PennTreebank(root=ROOT, split=("train", "valid", "test")):
    """Lines of text."""
    return _splits(
        root, "PennTreebank", {part: f"ptb.{part}.txt" for part in ("train", "valid", "test")}, split, _lines
    )


def Multi30k(root=ROOT, split=("train", "valid", "test"), language_pair=("de", "en")):
    """(sentence, its translation), from train.de, train.en, val.de and so on"""

    def pairs(path):
        stem = path.rpartition(".")[0]
        for one, other in zip(*(_lines(f"{stem}.{language}") for language in language_pair)):
            yield one.rstrip("\n"), other.rstrip("\n")

    files = {"train": "train", "valid": "val", "test": "test"}
    return _splits(root, "Multi30k", {part: f"{name}.{language_pair[0]}" for part, name in files.items()}, split, pairs)
