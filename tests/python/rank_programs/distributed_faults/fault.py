"""The rank of the second argument does what the first one names; then all come to collective number 4."""

from faults_begin import dist, r, step, torch
import os
import signal
import sys
import time


def tell_watchers():
    """Watchers hear of each other once a second: until they know of the collectives so far."""
    time.sleep(1.2)


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def fork_and_die():
    """The child, such as a loader's worker, has the same sockets."""
    if os.fork() == 0:
        time.sleep(50)
        os._exit(0)
    die()


def fail():
    raise ValueError("no such file: x")


fault, culprit = sys.argv[1], int(sys.argv[2])
if fault in ("stop", "sleep", "die_later"):
    tell_watchers()
if fault == "die_later":
    for _ in range(20):
        step()
faults = {
    "stop": stop,
    "sleep": lambda: time.sleep(60),
    "late": lambda: time.sleep(4),
    "die": die,
    "die_later": die,
    "fork_and_die": fork_and_die,
    "fail": fail,
    "leave": lambda: sys.exit(0),
}
if r == culprit:
    faults[fault]()
print("waits", flush=True)
step()
print("went on")
