#!/usr/bin/env bash
# The demo as a user runs it: the loss goes down, the network reads at least 97 of 100 test digits, within a minute; its source stays one
# page, and the saved weights are a file that loads. A folder without data is an error that names the file.
set -eu
fail() { echo "FAILED: $1"; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
demo=$TAPER_BUILD_DIR/examples/digits

[ "$(wc -l < "$TAPER_SOURCE_DIR/examples/digits.c")" -le 120 ] || fail "examples/digits.c is longer than 120 lines"
[ "$(cat "$TAPER_SOURCE_DIR"/examples/data/*.idx.gz | wc -c)" -le 3145728 ] || fail "the shipped digits are larger than 3 MB"

SECONDS=0
"$demo" "$TAPER_SOURCE_DIR/examples/data" "$scratch/weights.pt" | tr '\r' '\n' > "$scratch/said" || fail "the demo returned $?"
[ $SECONDS -le 60 ] || fail "the demo took $SECONDS s"
cat "$scratch/said"
awk '/^epoch/ { loss = $NF; if (!first) first = loss } END { exit !(loss > 0 && loss < first / 4) }' "$scratch/said" || fail "the loss did not go down"
awk '/^test accuracy/ { accuracy = $3 + 0 } END { exit !(accuracy >= 97) }' "$scratch/said" || fail "the accuracy is below 97%"
[ -s "$scratch/weights.pt" ] || fail "no weights were saved"

if said=$("$demo" "$scratch/nowhere" 2>&1); then fail "the demo ran without data"; fi
[[ $said == *nowhere/train-images.idx.gz* ]] || fail "the missing file is not named: $said"
