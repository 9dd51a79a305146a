"""torch.distributed.rpc, its autograd and its optimiser: calls, references, errors, and gradients that are those of one
process."""

import os
import subprocess
import sys

import pytest
from ranks import PROGRAMS, python_path, run_ranks


def test_calls_and_references(tmp_path):
    run_ranks(3, "rpc/calls.py", tmp_path)


def test_gradients_across_workers(tmp_path):
    run_ranks(3, "rpc/gradients.py", tmp_path)


def test_remote_modules(tmp_path):
    run_ranks(2, "rpc/remote_module.py", tmp_path)


def test_some_workers_wait_for_each_other(tmp_path):
    run_ranks(3, "rpc/barrier.py", tmp_path, arguments=[str(tmp_path)])


@pytest.mark.parametrize("first", ["group", "rpc"])
def test_calls_beside_a_process_group(first, tmp_path):
    """Both meet at MASTER_PORT, where one store listens: rpc after init_process_group, and the other way round, more
    than once."""
    run_ranks(2, "rpc/both.py", tmp_path, arguments=[first])


def test_calls_beside_a_process_group_by_the_launcher():
    command = [sys.executable, "-m", "taper", "launch", "--nproc", "2", str(PROGRAMS / "rpc" / "both.py"), "group"]
    variables = {**os.environ, "PYTHONPATH": python_path()}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 2, done.stderr
