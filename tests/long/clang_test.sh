#!/usr/bin/env bash
# Everything builds with clang without a warning, and the tests pass, in a build of its own beside this one.
set -eu
command -v clang > /dev/null || { echo "clang is not installed"; exit 77; }
build=$TAPER_BUILD_DIR-clang
CC=clang cmake -S "$TAPER_SOURCE_DIR" -B "$build" -G Ninja -DTAPER_WERROR=ON -DTAPER_BUILD_TESTS=ON
cmake --build "$build" --target all tests > "$build/build.log" 2>&1 || { tail -n 100 "$build/build.log"; exit 1; } # or what fails is drowned
ctest --test-dir "$build" --output-on-failure -j "$(nproc)" -LE long
