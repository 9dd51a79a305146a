#!/usr/bin/env bash
# 6,000 programs whose state changes between calls: torch.compile gives at every call what the program gives as it is.
set -eu
[ -d "$TAPER_BUILD_DIR/python/taper" ] || { echo "SKIPPED: this build has no Python package"; exit 77; }
python=$(sed -n 's/^_*Python3_EXECUTABLE:[A-Z]*=//p' "$TAPER_BUILD_DIR/CMakeCache.txt" | head -1)
PYTHONPATH=$TAPER_BUILD_DIR/python:$TAPER_SOURCE_DIR/tests/python PYTHONDONTWRITEBYTECODE=1 "${python:-python3}" "$TAPER_SOURCE_DIR/tests/long/compile_programs.py" 6000
