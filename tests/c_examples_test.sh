#!/usr/bin/env bash
# The C examples are one page each, run, and say what they should. digits.c has a test of its own (demo_test.sh).
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
fail() { echo "FAILED: $1"; exit 1; }
examples=$TAPER_BUILD_DIR/examples
says() { grep -q -- "$2" "$1.txt" || { cat "$1.txt"; fail "$1 does not say '$2'"; }; }
run() { # NAME ARGUMENT...
    "$examples/$1" "${@:2}" > "$1.txt" 2>&1 || { cat "$1.txt"; fail "$1 returned $?"; }
}
below() { # NAME PATTERN LIMIT: the last number on the last line with the pattern
    awk -v limit="$3" "/$2/ { value = \$NF } END { exit !(value != \"\" && value + 0 < limit) }" "$1.txt" || { cat "$1.txt"; fail "$1: $2 is not below $3"; }
}

for source in "$TAPER_SOURCE_DIR"/examples/*.c; do
    lines=$(wc -l < "$source")
    [ "$lines" -le 120 ] || fail "$source has $lines lines"
done

run regression
says regression "by descent: y = 2.9[0-9]* x + 0.\|by descent: y = 3.0[0-9]* x + 0."
[ "$(sed -n 's/^by descent: *//p' regression.txt | cut -c1-8)" = "$(sed -n 's/^exactly: *//p' regression.txt | cut -c1-8)" ] || { cat regression.txt; fail "regression: descent and least squares differ"; }
run pinn 300
below pinn "largest error" 0.05
run custom_function
says custom_function "made by ClippedExpBackward"
below custom_function "largest difference" 0.0001
run lstm 100
awk '/^right:/ { right = $2 } END { exit !(right >= 50) }' lstm.txt || { cat lstm.txt; fail "lstm: fewer than 50 of 64 right"; }
run gpt 100
says gpt "with and without the cache: the same"
below gpt "^step 100" 1.5
run serving 4 200
says serving "200 requests on 4 threads, same bits as on one: yes"
run read_pytorch
says read_pytorch "  epoch: 3"
says read_pytorch "    0.weight: float32 \[8, 4\], mean"
says read_pytorch "      betas: list of 2"
run data_parallel 3
says data_parallel "on 1 ranks"
says data_parallel "all ranks have the same weights: yes"
if command -v mpirun > /dev/null; then
    root=()
    if [ "$(id -u)" = 0 ] && mpirun --version 2>&1 | grep -qi "open mpi"; then root=(--allow-run-as-root --oversubscribe); fi
    mpirun "${root[@]}" -n 2 "$examples/data_parallel" 3 > data_parallel.txt 2>&1 || { cat data_parallel.txt; fail "data_parallel under mpirun"; }
    says data_parallel "on 2 ranks"
    says data_parallel "all ranks have the same weights: yes"
fi
