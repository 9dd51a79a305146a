#!/usr/bin/env bash
# The demo, shortened, under valgrind: no invalid access, nothing lost. TAPER_ALLOC=plain lets valgrind see each block's own life;
# it knows AVX2 but not AVX-512.
set -eu
command -v valgrind > /dev/null || { echo "valgrind is not installed"; exit 77; }
TAPER_ALLOC=plain TAPER_ISA=avx2 OMP_NUM_THREADS=2 valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=definite "$TAPER_BUILD_DIR/examples/digits" "$TAPER_SOURCE_DIR/examples/data" "$TAPER_BUILD_DIR/digits-valgrind.pt" 1 200
