"""Thousands of programs whose state changes between calls, each from a seed: compiled, a program gives at every call
what it gives as it is. Prints how many ran as graphs, which all must that read only what guards follow, and how many
said in a warning that they run without one. Arguments: how many programs, and the first seed."""

import collections
import sys
import time

import state
from state import programs


def may_go_without(what, told):
    """Attributes that are looked up by a text end a capture where a module is in reach. Where something was replaced
    before each call, every capture finds things that were not there before, and says so in the end."""
    return "looked up by a text" in told or all(what[2]) and "what it reads is made anew in each call" in told


count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
kinds, wrong, start = collections.Counter(), [], time.monotonic()
for seed in range(first, first + count):
    what = programs.plan(seed)
    expected, (given, graphs, told) = programs.run(what, False)[0], programs.run(what, True)
    kinds["graphs"] += graphs > 0
    kinds["warned"] += len(told) > 0
    kinds["neither"] += not graphs and not told
    kinds["plain"] += programs.is_plain(what)
    if expected != given:
        wrong.append(f"seed {seed}: {what}\n  {expected}\n  {given}\n  {told}")
    elif (
        programs.is_plain(what)
        and not graphs
        and not any(isinstance(each, str) for each in expected)
        and not may_go_without(what, "".join(told))
    ):
        wrong.append(f"seed {seed}: {what} has no graph\n  {told}")
print(
    f"{count} programs of {len(state.SOURCES)} sources in {time.monotonic() - start:.0f} s: {kinds['plain']} plain, {kinds['graphs']} ran as graphs, {kinds['warned']} warned, "
    f"{kinds['neither']} neither, {len(wrong)} wrong"
)
print("\n".join(wrong[:20]))
assert not wrong and kinds["graphs"] > count // 3
