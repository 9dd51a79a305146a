"""A collective in a forked child is an error there, and the parent goes on."""

from faults_begin import step
import os

pid = os.fork()
if pid == 0:
    try:
        step()
    except RuntimeError as error:
        os._exit(7 if "forked from rank" in str(error) else 8)
    os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
step()
