"""Runs until it hears that the job is preempted."""

import time
import taper

assert not taper.preempted()
taper.xpu.is_available()  # OpenCL may bring along LLVM, which sets handlers of its own
print("ready", flush=True)
while not taper.preempted():
    time.sleep(0.02)
print("saved")
