"""Random autograd programs: the answers that PyTorch 2.15 gave (autograd_programs.json, recorded by
autograd_programs.py), and finite differences."""

import json
import os
import pathlib
import warnings

import pytest

import taper
import taper.utils.checkpoint
from autograd_programs import answer, close, differences, digest

RECORDED = json.loads((pathlib.Path(__file__).parent / "autograd_programs.json").read_text())
FIRST_NEW = len(RECORDED)  # programs that nobody has seen the answers of
NEW = int(os.environ.get("TAPER_AUTOGRAD_PROGRAMS", 600))


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def alike(got, expected):
    if got is None or expected is None:
        return got is expected
    return all(abs(g - e) <= 1e-8 * max(1.0, abs(e)) for g, e in zip(got, expected))


def is_right(seed, penalty, expected):
    """PyTorch's answer; or, of a program that it refuses, one that finite differences confirm: a tape that saves less
    has less to refuse."""
    found = answer(taper, seed, penalty)
    if alike(digest(found), expected):
        return True
    return expected is None and close(found["gradients"], differences(taper, seed, penalty), 1e-5)


def test_recorded_programs_have_pytorchs_answers():
    wrong = []
    for seed, pair in enumerate(RECORDED):
        for penalty, expected in zip((False, True), pair):
            if not is_right(seed, penalty, expected):
                wrong.append((seed, penalty, expected))
    assert not wrong, (
        f"{len(wrong)} programs, such as `autograd_programs.py taper {wrong[0][0]} {wrong[0][0] + 1} --show`: {wrong[:5]}"
    )


@pytest.mark.parametrize("penalty", [False, True])
def test_gradients_are_what_finite_differences_say(penalty):
    wrong, compared = [], 0
    for seed in range(FIRST_NEW, FIRST_NEW + NEW):
        found = answer(taper, seed, penalty)
        if "error" in found:
            continue
        compared += 1
        if not close(found["gradients"], differences(taper, seed, penalty), 1e-5):
            wrong.append(seed)
    assert not wrong, (
        f"{len(wrong)} programs, such as `autograd_programs.py taper {wrong[0]} {wrong[0] + 1} --show`: {wrong[:20]}"
    )
    assert compared > NEW // 3
