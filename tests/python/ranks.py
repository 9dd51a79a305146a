"""Runs a program as several ranks that meet on this machine, for tests of torch.distributed."""

import os
import subprocess
import sys
import time
from pathlib import Path

from taper._launch.options import free_port

PROGRAMS = Path(__file__).parent / "rank_programs"


def python_path():
    """PYTHONPATH with rank_programs/, where programs of all folders find what they share."""
    return os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(PROGRAMS)])


class Ranks:
    """Processes that run one program of rank_programs/ ("ddp/ways.py"), each with torchrun's variables; what they write
    goes to files in `folder`. The variables named in `numbered` hold the rank's number too."""

    def __init__(self, n, program, folder, variables=None, arguments=(), absent=(), numbered=()):
        self.n, self.files, self.started = n, [folder / f"rank{i}.txt" for i in range(n)], time.monotonic()
        common = {
            **os.environ,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "WORLD_SIZE": str(n),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": python_path(),
            "TAPER_JOB_SECRET": os.urandom(32).hex(),
            **(variables or {}),
        }
        command = [sys.executable, "-m", "taper", "run", str(PROGRAMS / program), *map(str, arguments)]
        self.processes = [
            subprocess.Popen(
                command if i not in absent else ["true"],
                stdout=open(self.files[i], "w"),
                stderr=subprocess.STDOUT,
                env={**common, **dict.fromkeys(("RANK", "LOCAL_RANK", *numbered), str(i))},
            )
            for i in range(n)
        ]

    def wait(self, timeout=120):
        """Exit statuses and what each rank wrote; ranks that do not end in time are killed, and their status is None."""
        until, statuses = time.monotonic() + timeout, []
        for process in self.processes:
            try:
                statuses.append(process.wait(max(until - time.monotonic(), 0.01)))
            except subprocess.TimeoutExpired:
                statuses.append(None)
        self.kill()
        return statuses, self.texts()

    def wait_well(self, timeout=120):
        """All ranks must end well; what each wrote."""
        statuses, texts = self.wait(timeout)
        assert statuses == [0] * self.n, "\n".join(
            f"-- rank {i}, status {s}\n{t}" for i, (s, t) in enumerate(zip(statuses, texts))
        )
        return texts

    def kill(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def texts(self):
        return [file.read_text() for file in self.files]

    def wait_for_text(self, text, timeout=60, ranks=None):
        """Until each of the ranks has written it."""
        until = time.monotonic() + timeout
        while not all(text in self.files[r].read_text() for r in (range(self.n) if ranks is None else ranks)):
            assert time.monotonic() < until, self.texts()
            time.sleep(0.02)


def run_ranks(n, program, folder, timeout=120, **options):
    """All ranks must end well; what each wrote."""
    return Ranks(n, program, folder, **options).wait_well(timeout)
