#!/usr/bin/env bash
# The C++ examples, which the build makes without a warning (cmake/Tests.cmake), run and say what they should.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
fail() { echo "FAILED: $1"; exit 1; }
run() { # NAME ARGUMENTS...
    local name=$1 lines
    shift
    lines=$(wc -l < "$TAPER_SOURCE_DIR/examples/cpp/$name.cpp")
    [ "$lines" -lt 120 ] || fail "$name.cpp has $lines lines"
    "$TAPER_BUILD_DIR/examples/cpp/$name" "$@" > "$name.txt" || fail "$name: $(cat "$name.txt")"
}
says() { grep -q -- "$2" "$1.txt" || { cat "$1.txt"; fail "$1 does not say '$2'"; }; }

run regression
says regression "step 300: loss 0.00[0-4]"
says regression "an error is an exception"
at=$(sed -n 's/^at 1.0: \(.*\), loaded: .*/\1/p' regression.txt)
says regression "loaded: $at$"

run custom_function
says custom_function "2.7183"
says custom_function "^12$"

run lstm
says lstm "step 100: loss 0.00"

run digits "$TAPER_SOURCE_DIR/examples/data" 1
right=$(sed -n 's/^test accuracy \([0-9]*\).*/\1/p' digits.txt)
[ "${right:-0}" -ge 93 ] || { cat digits.txt; fail "digits: $right% right"; }
says digits "^loaded again $(sed -n 's/^test accuracy //p' digits.txt | sed 's/%/%/')$"
