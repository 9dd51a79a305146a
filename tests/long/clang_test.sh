#!/usr/bin/env bash
# Everything builds with clang without a warning, and the tests pass, in a build of its own beside this one.
set -eu
command -v clang > /dev/null || { echo "clang is not installed"; exit 77; }
build=$TAPER_BUILD_DIR-clang
CC=clang cmake -S "$TAPER_SOURCE_DIR" -B "$build" -G Ninja -DTAPER_WERROR=ON -DTAPER_BUILD_TESTS=ON
cmake --build "$build" --target all tests
ctest --test-dir "$build" --output-on-failure -j "$(nproc)" -LE long
