"""Stalls on eight ranks and deaths at random moments, many times over: python rank_faults.py STALLS DEATHS. Prints how
many were told as they must be."""

import os
import pathlib
import random
import re
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from ranks import Ranks  # noqa: E402

STALL = 2.0
PROGRAM = "distributed_faults/reduce_for_ever.py"


def stall(folder):
    """A rank is stopped somewhere; all others must name it, and nobody else, in time."""
    ranks = Ranks(8, PROGRAM, folder, variables={"TAPER_STALL": str(STALL)})
    culprit = random.randrange(8)
    try:
        ranks.wait_for_text("ready", timeout=120)
        time.sleep(random.uniform(0.2, 2))
        os.kill(ranks.processes[culprit].pid, signal.SIGSTOP)
        others = [r for r in range(8) if r != culprit]
        ranks.wait_for_text("has waited", timeout=STALL + 8, ranks=others)
        time.sleep(0.2)
        named = [
            set(re.findall(r"^  rank (\d+) \(host \S+, pid (\d+)\)", text, re.M))
            for r, text in enumerate(ranks.texts())
            if r != culprit
        ]
        wanted = {(str(culprit), str(ranks.processes[culprit].pid))}
        assert all(one == wanted for one in named), (culprit, named, ranks.texts())
    finally:
        for process in ranks.processes:
            process.kill()
        ranks.wait(5)


def death(folder):
    """A rank is killed somewhere; within ten seconds all are gone, with its name in every log."""
    ranks = Ranks(4, PROGRAM, folder)
    culprit = random.randrange(4)
    ranks.wait_for_text("ready", timeout=120)
    time.sleep(random.uniform(0, 1))
    ranks.processes[culprit].kill()
    killed = time.monotonic()
    statuses, texts = ranks.wait(12)
    took = time.monotonic() - killed
    assert took < 10 and all(s == 1 for r, s in enumerate(statuses) if r != culprit), (statuses, took)
    assert all(
        f"rank {culprit} (host " in t and f"pid {ranks.processes[culprit].pid}) died" in t
        for r, t in enumerate(texts)
        if r != culprit
    ), texts
    return took


def repeat(name, how, times):
    good, took = 0, []
    for i in range(times):
        with tempfile.TemporaryDirectory() as folder:
            try:
                took.append(how(pathlib.Path(folder)) or 0)
                good += 1
            except AssertionError as error:
                print(f"{name} {i}: {error}", flush=True)
    print(f"{name}: {good} of {times}" + (f", at most {max(took):.1f} s" if any(took) else ""), flush=True)
    return good == times


if __name__ == "__main__":
    stalls, deaths = (int(word) for word in sys.argv[1:3])
    sys.exit(0 if all([repeat("stalls", stall, stalls), repeat("deaths", death, deaths)]) else 1)
