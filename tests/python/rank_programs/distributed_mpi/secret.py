"""A process that does not know the job's secret is refused. With the argument "loopback", what listens is at loopback."""

from process_group import dist, r
import os
import pathlib
import subprocess
import sys
import taper

sys.path.append(str(pathlib.Path(__file__).parents[1] / "network"))
from network_begin import listening

if sys.argv[1:] == ["loopback"]:
    assert set(listening()) <= {"127.0.0.1", "::1"}, listening()
if r == 0:
    stranger = str(pathlib.Path(__file__).with_name("stranger.py"))
    bare = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}
    refused = subprocess.run(
        [sys.executable, stranger, str(taper._C._dist_store().port)],
        env=bare,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode == 1
    assert "asks for the job's secret" in refused.stderr, refused.stderr
dist.barrier()
