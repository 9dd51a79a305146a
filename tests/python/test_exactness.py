"""Winograd's tiles are about as exact as direct convolutions: a ResNet-18's gradients in float32 against float64, both
ways in one run (bench/exactness.py)."""

import json
import os
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).parents[2] / "bench" / "exactness.py"


def error(tiles):
    """The lower quartile of eight seeds' middle errors: a ReLU that flips between the precisions makes a seed's error
    large, whatever the convolutions do."""
    done = subprocess.run(
        [sys.executable, BENCH, "taper", "--seeds", "8"],
        env={**os.environ, "TAPER_WINOGRAD": tiles},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return sorted(json.loads(done.stdout)["middle"])[2]


def test_tiles_are_about_as_exact_as_direct_convolutions():
    assert error("1") < 2 * error("0")
