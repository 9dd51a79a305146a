#!/usr/bin/env bash
# The demo, shortened, under valgrind: no invalid access, nothing lost. On the library without its allocator's cache, so that
# valgrind sees each block's own life. valgrind knows AVX2 but not AVX-512.
set -eu
command -v valgrind > /dev/null || { echo "valgrind is not installed"; exit 77; }
cmake --build "$TAPER_BUILD_DIR" --target digits_plain
TAPER_ISA=avx2 OMP_NUM_THREADS=2 valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=definite "$TAPER_BUILD_DIR/examples/digits_plain" \
    "$TAPER_SOURCE_DIR/examples/data" "$TAPER_BUILD_DIR/digits_plain.npz" 1 200
