#!/usr/bin/env bash
# A program linked with the archive, and with what `Libs.private` of the pkg-config file names, runs without libtaper.so. The tests' own
# archive stands for libtaper.a (TAPER_STATIC): it is made of the same objects.
set -eu
archive=$TAPER_BUILD_DIR/libtaper_testable.a
[ -f "$archive" ] || { echo "SKIPPED: the tests' archive is not built"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
private=$(sed -n 's/^Libs.private: //p' "$TAPER_BUILD_DIR/taper.pc")
[ -n "$private" ] || { echo "FAILED: taper.pc names no Libs.private"; exit 1; }
# shellcheck disable=SC2086 # they are words
${CC:-cc} -std=gnu11 -I"$TAPER_SOURCE_DIR/include" -I"$TAPER_BUILD_DIR/generated/include" "$TAPER_SOURCE_DIR/examples/regression.c" "$archive" $private -o "$scratch/regression"
if ldd "$scratch/regression" | grep -q libtaper; then echo "FAILED: it asks for libtaper.so"; exit 1; fi
"$scratch/regression" | grep -q "^exactly: " || { echo "FAILED: it does not run"; exit 1; }
