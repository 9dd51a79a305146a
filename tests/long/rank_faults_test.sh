#!/usr/bin/env bash
# The figures of docs/clusters.md on faults: 20 of 20 stalls on eight ranks are reported in time with their culprit, and 50 of 50 deaths are noticed by all.
set -eu
[ -d "$TAPER_BUILD_DIR/python/taper" ] || { echo "SKIPPED: this build has no Python package"; exit 77; }
python=$(sed -n 's/^_*Python3_EXECUTABLE:[A-Z]*=//p' "$TAPER_BUILD_DIR/CMakeCache.txt" | head -1)
PYTHONPATH=$TAPER_BUILD_DIR/python OMP_NUM_THREADS=1 "${python:-python3}" "$TAPER_SOURCE_DIR/tests/long/rank_faults.py" 20 50
