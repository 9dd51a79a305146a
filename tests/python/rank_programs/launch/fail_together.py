"""Four ranks fail at once, with a long traceback each."""

import os
import sys
import time


def deep(n):
    if n % 9:
        return deep(n - 1)
    return deeper(n - 1) if n else 1 / 0


def deeper(n):
    return deep(n)


open(os.path.join(sys.argv[1], os.environ["RANK"]), "w").close()
while len(os.listdir(sys.argv[1])) < 4:
    time.sleep(0.001)
deep(200)
