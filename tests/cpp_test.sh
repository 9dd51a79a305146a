#!/usr/bin/env bash
# taper.hpp and LibTorch's headers over it: programs that the build makes without a warning (cmake/Tests.cmake) give what
# they should, and clang takes them too. tests/cpp/libtorch.expected is LibTorch's own output.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
fail() { echo "FAILED: $1"; exit 1; }
programs=$TAPER_BUILD_DIR/tests/cpp
"$programs/tensors" || fail "tensors"
"$programs/training" || fail "training"
"$programs/script" "$TAPER_SOURCE_DIR/tests/scripts" || fail "script"
"$programs/no_exceptions" || fail "no_exceptions: $?"
for program in libtorch containers frontend generators values layers everyday options; do
    if [ "$program" = values ]; then
        "$programs/$program" "$TAPER_SOURCE_DIR/tests/scripts" > printed
    else
        "$programs/$program" > printed
    fi
    diff "$TAPER_SOURCE_DIR/tests/cpp/$program.expected" printed || fail "$program.cpp prints something else than under LibTorch"
done
if command -v clang++ > /dev/null; then
    clang++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only -I"$TAPER_SOURCE_DIR/include/taper/libtorch" -I"$TAPER_SOURCE_DIR/include" \
        -I"$TAPER_BUILD_DIR/generated/include" "$TAPER_SOURCE_DIR/tests/cpp/tensors.cpp" || fail "tensors.cpp does not build with clang++"
fi
# A program that uses nothing makes nothing of the headers: a virtual function that is marked inline too late would take its class along.
echo 'int main() { return 0; }' > empty.cpp
c++ -std=c++17 -O1 -c -include torch/torch.h -I"$TAPER_SOURCE_DIR/include/taper/libtorch" -I"$TAPER_SOURCE_DIR/include" \
    -I"$TAPER_BUILD_DIR/generated/include" empty.cpp -o empty.o
! nm -C empty.o | grep ' [WVu] ' || fail "the headers alone make code"
