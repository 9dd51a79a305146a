"""torch.compile never goes on with an old value: programs whose state changes between calls give at every call what
they give as they are, by a graph or, with a warning, without one."""

import pytest
import taper as torch
from state import PLAIN, SOURCES, programs

EVERY_CALL = [[0]] * programs.CALLS


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_each_source(name):
    what = ([name], "summed", EVERY_CALL, "same")
    expected, (given, graphs, told) = programs.run(what, False)[0], programs.run(what, True)
    assert given == expected
    assert graphs if name in PLAIN else graphs or len(told) == 1


@pytest.mark.parametrize("shape", sorted(programs.SHAPES))
def test_each_shape(shape):
    for names in (
        ["in_a_list", "by_attribute"],
        ["np.beta", "by_closure"],
        ["module_parameter", "random.random", "by_global"],
    ):
        what = (names, shape, [[0, 1]] * programs.CALLS, "new")
        assert programs.run(what, True)[0] == programs.run(what, False)[0]


@pytest.mark.parametrize("seed", range(100))
def test_some_programs(seed):
    what = programs.plan(seed)
    assert programs.run(what, True)[0] == programs.run(what, False)[0]


def test_what_programs_ask_of_compiled_functions():
    def function(x, k=2):
        return x * k

    compiled = torch.compile(function)
    assert compiled.__code__ is function.__code__
    assert compiled.__defaults__ == (2,)
    assert torch.compile(function, disable=True).__code__ is function.__code__
    t = torch.ones(1)
    assert (
        torch._dynamo.mark_static_address(t, guard=False)
        is torch._dynamo.mark_static(t)
        is torch._dynamo.mark_dynamic(t, 0)
        is None
    )
