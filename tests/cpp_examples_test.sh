#!/usr/bin/env bash
# The C++ examples build without a warning, run, and say what they should.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
fail() { echo "FAILED: $1"; exit 1; }
compiler=${CXX:-c++}
build() { # NAME
    "$compiler" -std=c++17 -Wall -Wextra -Werror -O1 -I"$TAPER_SOURCE_DIR/include/taper/libtorch" -I"$TAPER_SOURCE_DIR/include" \
        -I"$TAPER_BUILD_DIR/generated/include" "$TAPER_SOURCE_DIR/examples/cpp/$1.cpp" -o "$1" -L"$TAPER_BUILD_DIR" -ltaper -pthread \
        -Wl,-rpath,"$TAPER_BUILD_DIR" || fail "$1.cpp does not build"
    lines=$(wc -l < "$TAPER_SOURCE_DIR/examples/cpp/$1.cpp")
    [ "$lines" -lt 120 ] || fail "$1.cpp has $lines lines"
}
says() { grep -q -- "$2" "$1.txt" || { cat "$1.txt"; fail "$1 does not say '$2'"; }; }

build regression
./regression > regression.txt
says regression "step 300: loss 0.00[0-4]"
says regression "an error is an exception"
at=$(sed -n 's/^at 1.0: \(.*\), loaded: .*/\1/p' regression.txt)
says regression "loaded: $at$"

build custom_function
./custom_function > custom_function.txt
says custom_function "2.7183"
says custom_function "^12$"

build lstm
./lstm > lstm.txt
says lstm "step 100: loss 0.00"

build digits
./digits "$TAPER_SOURCE_DIR/examples/data" 1 > digits.txt
right=$(sed -n 's/^test accuracy \([0-9]*\).*/\1/p' digits.txt)
[ "${right:-0}" -ge 93 ] || { cat digits.txt; fail "digits: $right% right"; }
says digits "^loaded again $(sed -n 's/^test accuracy //p' digits.txt | sed 's/%/%/')$"
