"""Operators on threads with a small stack, and in a process whose main thread has one."""

import resource
import subprocess
import sys
from pathlib import Path

WORK = Path(__file__).parent / "child_programs" / "small_stack.py"


def run(where, **options):
    return subprocess.run([sys.executable, str(WORK), where], capture_output=True, text=True, timeout=300, **options)


def test_threads_of_128_kib():
    done = run("thread")
    assert done.stdout == "fine\n", done.stderr


def test_a_process_with_a_small_stack():
    """The library's own threads have stacks of that size, too."""
    done = run("main", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (256 * 1024, 256 * 1024)))
    assert done.stdout == "fine\n", done.stderr
