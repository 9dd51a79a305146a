"""Docstrings: every operator's has its signature and a line; the most used ones have an example, which runs and prints
what it says."""

import doctest

import pytest

import taper as torch
import taper.nn.functional as F
from taper._docs import EXAMPLES


def described(name):
    for owner in (torch, F, torch.Tensor):
        if hasattr(owner, name):
            return getattr(owner, name)
    raise AssertionError(f"nothing is called {name}")


def test_there_are_fifty():
    assert len(EXAMPLES) >= 50


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_example(name):
    text = described(name).__doc__
    assert EXAMPLES[name] in text
    assert text.startswith(name + "(")
    test = doctest.DocTestParser().get_doctest(text, {"torch": torch, "F": F}, name, None, 0)
    said = []
    assert len(test.examples) >= 1
    assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)


def test_every_operator_is_described():
    lines = {name: doc for name, _, doc, *_ in torch._C._operators()}
    for name, function in torch._C._functions.items():
        text = function.__doc__
        assert text.startswith(name + "("), name
        assert any(
            doc and doc in text for operator, doc in lines.items() if operator.split(".")[0] in (name, name[:-1])
        ), name
