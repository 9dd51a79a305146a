#!/usr/bin/env bash
# taper.hpp and LibTorch's headers over it: programs that build without a warning under gcc and clang and give what they
# should. tests/cpp/libtorch.expected is LibTorch's own output.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
fail() { echo "FAILED: $1"; exit 1; }
build() { # COMPILER PROGRAM FLAGS...
    local compiler=$1 program=$2
    shift 2
    "$compiler" -std=c++17 -Wall -Wextra -Werror "$@" -I"$TAPER_SOURCE_DIR/include/taper/libtorch" -I"$TAPER_SOURCE_DIR/include" \
        -I"$TAPER_BUILD_DIR/generated/include" "$TAPER_SOURCE_DIR/tests/cpp/$program.cpp" -o "$program" -L"$TAPER_BUILD_DIR" -ltaper \
        -pthread -Wl,-rpath,"$TAPER_BUILD_DIR" || fail "$program.cpp does not build with $compiler"
}
build "${CXX:-c++}" tensors
./tensors || fail "tensors"
build "${CXX:-c++}" no_exceptions -fno-exceptions
./no_exceptions || fail "no_exceptions: $?"
for program in libtorch containers frontend; do
    build "${CXX:-c++}" $program
    ./$program > printed
    diff "$TAPER_SOURCE_DIR/tests/cpp/$program.expected" printed || fail "$program.cpp prints something else than under LibTorch"
done
if command -v clang++ > /dev/null; then build clang++ tensors -fsyntax-only -Wno-unused-command-line-argument; fi
