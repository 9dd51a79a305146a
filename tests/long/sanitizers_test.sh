#!/usr/bin/env bash
# The C tests again under AddressSanitizer and UBSan, in a build of their own beside this one.
set -eu
build=$TAPER_BUILD_DIR-asan
cmake -S "$TAPER_SOURCE_DIR" -B "$build" -G Ninja -DTAPER_SANITIZE=ON -DTAPER_BUILD_TESTS=ON
cmake --build "$build" --target tests > "$build/build.log" 2>&1 || { tail -n 100 "$build/build.log"; exit 1; } # or what fails is drowned
# Leaks inside libraries that keep memory to the end (the OpenMP runtime, OpenBLAS) are not ours.
export LSAN_OPTIONS=suppressions=$TAPER_SOURCE_DIR/tests/long/lsan.supp
# oneDNN is opened at run time; over its thread-local memory the leak check of gcc 12 falls down, unless it does not follow that.
export ASAN_OPTIONS=intercept_tls_get_addr=0
# Of the long tests that a build without Python has, only the failing allocations say something new here: the others compile kernels.
ctest --test-dir "$build" --output-on-failure -j "$(nproc)" -LE long
ctest --test-dir "$build" --output-on-failure -R long/failing_allocations
