"""Runs a program of this folder several times in one process: `python turns.py PROGRAM.py N`.

Prints a line "SECONDS [...]" with the processor seconds of each turn, those of its child processes included. The first
turn imports the packages and fills caches; the others are warm.
"""

import json
import os
import resource
import runpy
import sys


def spent():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


program, count = sys.argv[1], int(sys.argv[2])
sys.argv = [program]
sys.path[0] = os.path.dirname(program)
seconds = []
for _ in range(count):
    start = spent()
    runpy.run_path(program, run_name="__main__")
    seconds.append(spent() - start)
print("SECONDS " + json.dumps(seconds), flush=True)
