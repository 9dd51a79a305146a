"""100,000 calls with arguments that make no sense, in a process with a memory limit: it answers each with a value or an
exception, and lives."""

import os
import pathlib
import subprocess
import sys

FUZZ = pathlib.Path(__file__).parent / "fuzz.py"
SEED, CALLS = 20240, 100_000


def test_the_process_lives(tmp_path):
    at = tmp_path / "at"
    environment = {**os.environ, "FUZZ_AT": str(at), "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [sys.executable, FUZZ, str(SEED), str(CALLS)], env=environment, capture_output=True, text=True, timeout=480
        )
        said = done.stdout + done.stderr[-6000:]
    except subprocess.TimeoutExpired:
        done, said = None, "it did not come back"
    call = int.from_bytes(at.read_bytes(), "little") if at.exists() else -1
    assert done is not None, f"call {call} (FUZZ_SHOW=1 fuzz.py {SEED} {call + 1} {call}): {said}"
    assert done.returncode == 0, f"call {call} (FUZZ_SHOW=1 fuzz.py {SEED} {call + 1} {call}): {said}"
    returned = int(said.split()[0])
    assert returned > CALLS // 20, said
