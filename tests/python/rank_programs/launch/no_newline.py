"""Prints on both streams, the last line without its end."""

import os
import sys

print("out", os.environ["RANK"])
print("err", os.environ["RANK"], file=sys.stderr)
print("no newline", end="")
