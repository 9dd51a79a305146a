"""Leaves its process id in the folder that is given, and sleeps."""

from launch_begin import leave
import os
import sys
import time

leave(sys.argv[1], "pid", str(os.getpid()))
time.sleep(60)
