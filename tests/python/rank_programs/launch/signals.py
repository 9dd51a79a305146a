"""Goes on until SIGTERM comes, and leaves the names of all signals that came."""

from launch_begin import leave
import signal
import sys
import time

got, folder = [], sys.argv[1]
signal.signal(signal.SIGUSR1, lambda *_: got.append("usr1"))
signal.signal(signal.SIGTERM, lambda *_: got.append("term"))
leave(folder, "ready")
while "usr1" not in got:
    time.sleep(0.01)
leave(folder, "heard")
while "term" not in got:
    time.sleep(0.01)
leave(folder, "saved", " ".join(got))
