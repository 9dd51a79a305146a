#!/usr/bin/env bash
# Sharded checkpoints go from C to Python and back: what four ranks of a C program saved, one, two and three ranks of Python load, and the other way round.
set -eu
[ -d "$TAPER_BUILD_DIR/python/taper" ] || { echo "SKIPPED: this build has no Python package"; exit 77; }
python=$(sed -n 's/^_*Python3_EXECUTABLE:[A-Z]*=//p' "$TAPER_BUILD_DIR/CMakeCache.txt" | head -1)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
programs=$TAPER_SOURCE_DIR/tests/checkpoint_exchange
export PYTHONPATH=$TAPER_BUILD_DIR/python OMP_NUM_THREADS=1

"${CC:-cc}" -O1 -Wall -Wextra -Werror -I"$TAPER_SOURCE_DIR/include" -I"$TAPER_BUILD_DIR/generated/include" "$programs/program.c" -L"$TAPER_BUILD_DIR" -ltaper -Wl,-rpath,"$TAPER_BUILD_DIR" -o program
launch() { "${python:-python3}" -m taper launch --nproc "$@"; }
launch 4 --no-python ./program save from-c 2
launch 4 "$programs/program.py" save from-python 3
for n in 1 2 3; do
    launch $n "$programs/program.py" load from-c 2
    launch $n --no-python ./program load from-python 3
done
echo "checkpoints of four ranks went from C to Python and back, on one, two and three"
