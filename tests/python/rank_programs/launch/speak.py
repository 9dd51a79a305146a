"""A line on each stream."""

import os
import sys

for stream, name in ((sys.stdout, "out"), (sys.stderr, "err")):
    print(f"{name} {os.environ['RANK']}\n", end="", file=stream, flush=True)
